"""Files that hold secrets: no text of theirs reaches a model, neither as a document nor as context of another.

The list goes by names, as people and tools give them: keys, certificates' private halves, credentials of package
managers and clouds, environment files, password stores. It errs on the side of silence: a suggestion that is missing
in a file called `credentials.py` costs less than a key in a prompt.
"""

from __future__ import annotations

import os
import re
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
    *("*passwords*", "*password*.txt", "token.json", "*.token", ".s3cfg", ".boto", "rclone.conf"),
)
#: Names of folders in which everything is secret.
SECRET_FOLDERS: Final = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
# Names that only their folder makes secret.
_SECRET_PATHS: Final = ("**/gh/hosts.yml",)
# Folders of secrets, or of the code that handles them.
_FOLDERS_OF_SECRETS: Final = frozenset({"secrets", ".secrets"})
_CODE_OR_PROSE: Final = (
    *("*.c", "*.cc", "*.cpp", "*.cs", "*.ex", "*.go", "*.h", "*.hpp", "*.java", "*.js", "*.jsx", "*.kt", "*.php"),
    *("*.py", "*.pyi", "*.rb", "*.rs", "*.scala", "*.swift", "*.ts", "*.tsx", "*.css", "*.html", "*.md", "*.rst"),
)
# What editors and people put around the name of a file that they keep a copy of.
_COPY: Final = re.compile(r"^\.?#|(?:\.(?:bak|backup|old|orig|save|copy|tmp|sw[a-p])|~|#)+$", re.IGNORECASE)
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
    return matches(name, SECRET_NAMES) or matches("/".join([*folders, name]), _SECRET_PATHS)


def leads_to_secret(path: Path, language: str = "") -> bool:
    """Tell whether a file `is_secret` by its path or by where that leads: a link's own name may be harmless."""
    return any(is_secret(each, language) for each in {path.as_posix(), Path(os.path.realpath(path)).as_posix()})
