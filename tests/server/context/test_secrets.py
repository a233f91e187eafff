"""Which files hold secrets, and how patterns of paths are read."""

from __future__ import annotations

import pytest
from warmline_server.context.globs import matches
from warmline_server.context.secrets import is_secret

SECRET = (
    *(".env", ".env.local", "config/prod.env", ".ENV", "secrets.yaml", "app-secrets.json"),
    *("server.pem", "tls/private.key", "id_rsa", "id_ed25519.pub", "store.jks", "vault.kdbx", "client.ovpn"),
    *("credentials", "credentials.json", "aws/credentials.ini", "gcp_credentials.json", ".netrc", ".npmrc", ".pypirc"),
    *("kubeconfig", "kubeconfig.yaml", "home/.kube/config", "home/.ssh/config", "home/.aws/config", ".git-credentials"),
    *("terraform.tfstate", "prod.tfvars", "service-account.json", "my_passwords.txt", "token.json"),
)
PLAIN = (
    *("a.py", "environment.py", "src/env/main.py", "keyboard.py", "monkey.js", "tokens.py", "README.md", "pem.py"),
    *("credential_store/main.py", "docs/secrets/intro.md", "password.py", "Dockerfile", "config.json"),
)


@pytest.mark.parametrize("path", SECRET)
def test_a_secret_is_known_by_its_name(path: str) -> None:
    assert is_secret(path)
    assert is_secret(f"/home/someone/{path}")


@pytest.mark.parametrize("path", PLAIN)
def test_code_about_secrets_is_none(path: str) -> None:
    assert not is_secret(path)


def test_a_language_may_say_it_too() -> None:
    assert is_secret("settings", "dotenv")
    assert not is_secret("settings", "python")


@pytest.mark.parametrize(
    ("pattern", "path", "wanted"),
    [
        ("*.txt", "notes.txt", True),
        ("*.txt", "docs/deep/notes.TXT", True),
        ("*.txt", "notes.txt.py", False),
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "src/docs/b.md", False),
        ("**/docs/**", "src/docs/b.md", True),
        ("docs", "docs/a/b.md", True),
        ("build/", "build/x.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("file?.[ch]", "file1.c", True),
        ("file?.[!ch]", "file1.c", False),
        ("[", "[", True),
        ("", "a.py", False),
        ("a.b", "axb", False),
    ],
)
def test_patterns_read_as_people_mean_them(pattern: str, path: str, wanted: bool) -> None:
    assert matches(path, [pattern]) is wanted
