"""Files that hold secrets: no text of theirs reaches a model, neither as a document nor as context of another.

The list goes by names, as people and tools give them: keys, certificates' private halves, credentials of package
managers and clouds, environment files, password stores. It errs on the side of silence: a suggestion that is missing
in a file called `credentials.py` costs less than a key in a prompt.
"""

from __future__ import annotations

from typing import Final

from .globs import matches

#: Patterns of names, as in `globs`; settings add to them and take none away.
SECRET_NAMES: Final = (
    # environments
    *(".env*", "*.env", ".flaskenv", "secrets.*", "*.secret", "*.secrets", "*-secrets.*", "*_secrets.*"),
    # keys and certificates
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.ppk", "*.asc", "*.gpg", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_ed25519", "*.ovpn", "*.age", "*.keychain*"),
    # credentials of tools
    *("credentials*", "*credentials.*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd"),
    *(".git-credentials", ".dockercfg", "kubeconfig*", "*.kubeconfig", "service-account*.json"),
    *("service_account*.json", "*.tfstate", "*.tfstate.*", "*.tfvars", ".terraformrc", "terraform.rc", ".vault-token"),
    *("*passwords*", "*password*.txt", "token.json", "*.token", ".s3cfg", ".boto", "rclone.conf"),
)
#: Names of folders in which everything is secret.
SECRET_FOLDERS: Final = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
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
    *folders, name = path.strip("/").split("/")
    if language in _SECRET_LANGUAGES or not SECRET_FOLDERS.isdisjoint(folder.lower() for folder in folders):
        return True
    return matches(name, SECRET_NAMES)
