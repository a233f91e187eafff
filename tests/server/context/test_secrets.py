"""Which files hold secrets, and how patterns of paths are read."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from warmline_server.context.globs import matches
from warmline_server.context.secrets import HardLinks, is_secret, leads_to_secret

SECRET = (
    *(".env", ".env.local", "config/prod.env", ".ENV", "secrets.yaml", "app-secrets.json"),
    *("server.pem", "tls/private.key", "id_rsa", "id_ed25519.pub", "store.jks", "vault.kdbx", "client.ovpn"),
    *("credentials", "credentials.json", "aws/credentials.ini", "gcp_credentials.json", ".netrc", ".npmrc", ".pypirc"),
    *("kubeconfig", "kubeconfig.yaml", "home/.kube/config", "home/.ssh/config", "home/.aws/config", ".git-credentials"),
    *("terraform.tfstate", "prod.tfvars", "service-account.json", "my_passwords.txt", "token.json"),
    # copies that editors and people keep
    *("app.pem.bak", "server.key.bak", ".env.bak", "x.env.bak", ".netrc.bak", ".netrc~", "#server.key#", ".id_rsa.swp"),
    *("secret.yml", "k8s/Secret.yaml", "secrets/db.yml", "deploy/secrets/prod/db_password", "secrets/old/key.json"),
    *(".dockerconfigjson", ".docker/config.json", ".bash_history", ".zsh_history", "key.pk8", ".config/gh/hosts.yml"),
    *("auth.json", ".composer/auth.json", "wp-config.php", "wp-config.php.bak", "wp-config-local.php", "vault.yml"),
    *("group_vars/all/vault.yaml", "prod_vault.yml"),
    *("firebase-adminsdk.json", "shop-firebase-adminsdk-x1.json"),
    # of tools
    *("client_secret.json", "client_secret_41-x.apps.googleusercontent.com.json", "client-secret.yml", ".yarnrc.yml"),
    *("local.settings.json", "appsettings.Production.json", "api/appsettings.Development.json", ".m2/settings.xml"),
    *("terraform.tfvars.json", "prod.auto.tfvars", "htpasswd", ".htpasswd", "site.htpasswd", ".Renviron", "wallet.dat"),
    *(".rhosts", "etc/shadow", "etc/shadow-", ".vscode/sftp.json", "sftp-config.json", "env.production", "env.local"),
    *("k8s/prod.env.yaml", "prod.env.json"),
    *(".git/config", "sub/.Git/config", ".git/modules/x/config", ".git/config.worktree", ".hg/hgrc"),
    # by what they are called
    *("app.secrets.json", "app.secret.yml", "secrets.toml", "gcp-key.json", "service_key.json", "api_key.txt"),
    *("apikeys.json", "stripe-api-key.yml", "tokens.json", "tokens.yaml", "access_tokens.csv", "password.yml"),
    *(
        "passwords.ini",
        "password-prod.yml",
        "db_password.json",
        "private_key.txt",
        "private.key.txt",
        "rsa_private.txt",
    ),
    *("deploy_key", "deploy_key.txt", "jwt_private_key.xml", "django_secret_key.txt", "api_key.txt.bak"),
)
PLAIN = (
    *("a.py", "environment.py", "src/env/main.py", "keyboard.py", "monkey.js", "tokens.py", "README.md", "pem.py"),
    *("credential_store/main.py", "docs/secrets/intro.md", "password.py", "Dockerfile", "config.json"),
    *("secret_santa.py", "secret.py", "secretary.yml", "src/secrets/manager.py", "hosts.yml", "lib/history.py"),
    *(
        "a.py.bak",
        "keyboard.py~",
        "command_history.py",
        "auth.py",
        "vault.py",
        "wp-settings.php",
        "firebase.json",
        "docker/config.json",
        "gh/main.yml",
    ),
    *(
        "tokens.ts",
        "access_token.go",
        "password_field.tsx",
        "passwd.c",
        "settings.xml",
        "m2/settings.xml",
        "client.json",
    ),
    *("api_key.py", "apikeys.rs", "api_key.md", "client_secret.java", "private_key.rb", "deploy_key.sh", "env.py"),
    *(
        "env.ts",
        "env.d.ts",
        "environment.yml",
        "env.test.ts",
        "appsettings.json",
        "appsettings.cs",
        "local_settings.md",
    ),
    *("tokenizer.json", "special_tokens_map.json", "added_tokens.json", "monkey.json", "keymap.json", "keys.json"),
    *("shadow.css", "etc/shadow.py", "src/shadow", "sftp.json", "sftp.py", "wallet.py", "main.tf", "yarn.lock"),
    *("git/config", ".git/HEAD", ".git/hooks/pre-commit", "src/config", "hgrc", ".gitignore", ".gitmodules"),
    *("secretary.json", "renviron.R", "hosts", "package.json", "tsconfig.json", "turkey.txt", "variables.tfvars.md"),
)


@pytest.mark.parametrize("path", SECRET)
def test_a_secret_is_known_by_its_name(path: str) -> None:
    assert is_secret(path)
    assert is_secret(f"/srv/someone/{path}")


@pytest.mark.parametrize("path", PLAIN)
def test_code_about_secrets_is_none(path: str) -> None:
    assert not is_secret(path)


def test_a_hard_link_to_a_secret_is_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "plain.txt").write_text("x")
    (tmp_path / "src").mkdir()
    os.link(tmp_path / ".env", tmp_path / "src" / "harmless.txt")
    os.link(tmp_path / "plain.txt", tmp_path / "src" / "twice.txt")
    assert leads_to_secret(tmp_path / "src" / "harmless.txt")
    assert not leads_to_secret(tmp_path / "src" / "twice.txt")
    links = HardLinks()
    assert leads_to_secret(tmp_path / "src" / "harmless.txt", links=links)
    assert not leads_to_secret(tmp_path / "src" / "twice.txt", links=links)
    (tmp_path / ".env").unlink()
    assert not leads_to_secret(tmp_path / "src" / "harmless.txt")


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
        ("**/**/docs/**/*.md", "docs/b.md", True),
        ("a*b*c", "abbac", True),
        ("a*b*c", "ab/c", False),
        ("*b*/x", "abb/x", True),
        ("**/a/*b/**/c", "a/a/ab/c", True),
        ("**/a/*b/**/c", "a/b/x/a/c/d", True),
        ("a**b", "x/a/b", True),
        ("a?**/b", "ab/b", True),
        ("a**/b", "ab", False),
        ("a[!b]c", "a/c", False),
    ],
)
def test_patterns_read_as_people_mean_them(pattern: str, path: str, wanted: bool) -> None:
    assert matches(path, [pattern]) is wanted


def _fits(pattern: str, path: str) -> bool:
    """Try every division of a path among the wildcards of a pattern that begins where the path does."""
    if not pattern:
        return not path or path.startswith("/")
    if pattern.startswith("**/"):
        folders = [at + 1 for at, sign in enumerate(path) if sign == "/"]
        return any(_fits(pattern[3:], path[at:]) for at in [0, *folders])
    if pattern.startswith("**"):
        return any(_fits(pattern[2:], path[at:]) for at in range(len(path) + 1))
    if pattern.startswith("*"):
        return any(_fits(pattern[1:], path[at:]) for at in range(len(path.partition("/")[0]) + 1))
    return path[:1] == pattern[0] and _fits(pattern[1:], path[1:])


def test_the_first_fit_finds_what_trying_all_finds() -> None:
    draw = random.Random(7)
    matched = 0
    for _ in range(4000):
        names = ("*", "a", "b", "*a", "b*", "a*b", "*a*", "*b*a")
        pattern = "/".join(draw.choice([*names, "**"]) for _ in range(draw.randint(2, 5)))
        path = "/".join("".join(draw.choices("ab", k=draw.randint(1, 3))) for _ in range(draw.randint(1, 5)))
        matched += matches(path, [pattern])
        assert matches(path, [pattern]) is _fits(pattern, path), (pattern, path)
    assert matched > 400


@pytest.mark.parametrize("pattern", ["**/" * 300 + "x", "**/a/" * 40 + "x", "*a" * 60 + "x", "**a" * 60 + "x"])
def test_no_pattern_tries_every_division_of_a_path(pattern: str) -> None:
    # By trying all, each of these would outlast any run of the tests.
    assert not matches("a/" * 100 + "a" * 200, [pattern])
