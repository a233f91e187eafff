"""Helix's configuration: what is in it is what Helix documents for `languages.toml`, and its command is ours."""

from __future__ import annotations

import tomllib
from pathlib import Path

# Helix's book, "Languages": keys of a language server, and the features that may be named for one.
SERVER_KEYS = {"command", "args", "config", "timeout", "environment", "required-root-patterns"}
FEATURES = {
    "format", "goto-definition", "goto-declaration", "goto-type-definition", "goto-reference", "goto-implementation",
    "signature-help", "hover", "document-highlight", "completion", "code-action", "workspace-command",
    "document-symbols", "workspace-symbols", "diagnostics", "rename-symbol", "inlay-hints", "document-colors",
}  # fmt: skip


def test_the_configuration_is_as_documented(repo: Path) -> None:
    config = tomllib.loads((repo / "editors" / "helix" / "languages.toml").read_text())
    assert set(config) == {"language-server", "language"}
    [(name, server)] = config["language-server"].items()
    assert name == "warmline" and set(server) <= SERVER_KEYS
    assert [server["command"], *server["args"]] == ["warmline", "lsp"]
    for language in config["language"]:
        assert set(language) == {"name", "language-servers"}
        ours = [each for each in language["language-servers"] if each != "warmline" and isinstance(each, dict)]
        assert ours or "warmline" in language["language-servers"]
        for each in ours:
            assert set(each) <= {"name", "only-features", "except-features"} and each["name"] == "warmline"
            assert set(each["only-features"]) <= FEATURES
