"""Files that hold secrets: no text of theirs reaches a model, neither as a document nor as context of another.

The list goes by names, as people and tools give them: keys, certificates' private halves, credentials of package
managers and clouds, environment files, password stores. It errs on the side of silence: a suggestion that is missing
in a file called `credentials.py` costs less than a key in a prompt.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from pathlib import Path
from typing import Final

from .globs import matches

#: Patterns of names, as in `globs`; settings add to them and take none away.
SECRET_NAMES: Final = (
    # environments
    *(".env*", "*.env", ".flaskenv", "secrets.*", "*.secret", "*.secrets", "*-secrets.*", "*_secrets.*"),
    *(f"secret.{ending}" for ending in ("yml", "yaml", "json", "toml", "ini", "cfg", "conf", "txt", "properties")),
    # keys and certificates
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.ppk", "*.asc", "*.gpg", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_ed25519", "*.ovpn", "*.age", "*.keychain*"),
    # credentials of tools
    *("credentials*", "*credentials.*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd"),
    *(".git-credentials", ".dockercfg", ".dockerconfigjson", "kubeconfig*", "*.kubeconfig", "service-account*.json"),
    *("*.pk8", "*firebase-adminsdk*.json", ".*_history", "pgpass.conf"),
    *("service_account*.json", "*.tfstate", "*.tfstate.*", "*.tfvars", ".terraformrc", "terraform.rc", ".vault-token"),
    *("auth.json", "wp-config*.php", "vault.yml", "vault.yaml", "*.vault", "*_vault.yml", "*-vault.yml"),
    *("*passwords*", "*.token", ".s3cfg", ".boto", "rclone.conf", ".yarnrc*", ".renviron*", "sftp-config.json"),
    *("htpasswd", "*.htpasswd", ".htdigest", ".rhosts", "wallet.dat", "deploy_key", "deploy-key", "*.tfvars.json"),
    # settings that tools keep apart for what is not to be published
    *("local.settings.json", "appsettings.*.json", "*-key.json", "*_key.json"),
    *(f"env.{stage}" for stage in ("local", "dev", "development", "test", "staging", "prod", "production")),
)
# Names that say it of a file of data, not of code or prose; without the ending.
_SECRET_DATA: Final = (
    *("client_secret*", "client-secret*", "*.secret", "*.secrets", "*_secret", "*-secret", "*password*", "*passwd*"),
    *("token", "tokens", "*access_token*", "*auth_token*", "*.env", "deploy_key*", "deploy-key*", "htpasswd"),
    *("*api_key*", "*apikey*", "*api-key*", "*access_key*", "*secret_key*", "*private_key*", "*private-key*"),
    *("*privatekey*", "*private.key*", "*rsa_private*", "*rsa-private*"),
)
_DATA: Final = re.compile(r"\.(?:ya?ml|json[5c]?|toml|ini|cfg|conf|config|txt|csv|properties|xml|plist|dat)$")
#: Names of folders in which everything is secret.
SECRET_FOLDERS: Final = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
# Names that only their folder makes secret.
_SECRET_PATHS: Final = (
    *("**/gh/hosts.yml", "**/.m2/settings.xml", "**/.m2/settings-security.xml", "**/.vscode/sftp.json"),
    # an address of a remote repository may hold a password
    *("**/.git/**/config", "**/.git/**/config.worktree", "**/.hg/hgrc"),
    *("**/etc/shadow", "**/etc/shadow-", "**/etc/gshadow", "**/etc/gshadow-"),
)
# Folders of secrets, or of the code that handles them.
_FOLDERS_OF_SECRETS: Final = frozenset({"secrets", ".secrets"})
_CODE_OR_PROSE: Final = (
    *("*.c", "*.cc", "*.cpp", "*.cs", "*.ex", "*.go", "*.h", "*.hpp", "*.java", "*.js", "*.jsx", "*.kt", "*.php"),
    *("*.py", "*.pyi", "*.rb", "*.rs", "*.scala", "*.swift", "*.ts", "*.tsx", "*.css", "*.html", "*.md", "*.rst"),
)
# What editors and people put around the name of a file that they keep a copy of.
_COPY: Final = re.compile(r"^\.?#|(?:\.(?:bak|backup|old|orig|save|copy|tmp|sw[a-p])|~|#)+$", re.IGNORECASE)
_FOLDERS_OF_NAMES: Final = 4
_NAMES_OF_FOLDER: Final = 500
_SECRET_LANGUAGES: Final = frozenset({"dotenv", "env", "ssh_config"})


def is_secret(path: str, language: str = "") -> bool:
    """Tell whether a file's name, a folder on its path, or its language says that it holds secrets.

    Parameters
    ----------
    path
        The file's whole path, ``/`` between its parts.
    language
        LSP language id.
    """
    *folders, name = path.strip("/").lower().split("/")
    if language in _SECRET_LANGUAGES or not SECRET_FOLDERS.isdisjoint(folders):
        return True
    name = _COPY.sub("", name) or name
    if not _FOLDERS_OF_SECRETS.isdisjoint(folders) and not matches(name, _CODE_OR_PROSE):
        return True
    stem = _DATA.sub("", name)
    if stem != name and matches(stem, _SECRET_DATA):
        return True
    return matches(name, SECRET_NAMES) or matches("/".join([*folders, name]), _SECRET_PATHS)


class HardLinks:
    """Finds other names of the same files, and remembers the folders that it read: for one task, since they change.

    They are looked for in a file's own folder and the ones above it, as far as that is quick.
    """

    def __init__(self) -> None:
        self._names: dict[Path, dict[int, list[str]]] = {}

    def secret(self, real: Path) -> bool:
        """Tell whether another name of a file says that it holds secrets."""
        with contextlib.suppress(OSError):
            info = os.stat(real)
            if info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
                return any(self._has_secret_name(folder, info) for folder in list(real.parents)[:_FOLDERS_OF_NAMES])
        return False

    def _has_secret_name(self, folder: Path, info: os.stat_result) -> bool:
        if folder not in self._names:
            self._names[folder] = _names_by_inode(folder)
        same = (folder / name for name in self._names[folder].get(info.st_ino, ()))
        return any(is_secret(path.as_posix()) and path.lstat().st_dev == info.st_dev for path in same)


def leads_to_secret(path: Path, language: str = "", links: HardLinks | None = None) -> bool:
    """Tell whether a file `is_secret` by its path or by where that leads: a link's own name may be harmless.

    So may that of a hard link; `links` is given by who asks about many files.
    """
    real = Path(os.path.realpath(path))
    if any(is_secret(each, language) for each in {path.as_posix(), real.as_posix()}):
        return True
    return (links or HardLinks()).secret(real)


def _names_by_inode(folder: Path) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _NAMES_OF_FOLDER):
            names.setdefault(entry.inode(), []).append(entry.name)
    return names
