"""The command stays light: what is native or speaks a protocol is loaded by the command that needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "mcp",
    "acp",
    "llama_cpp",
    "numpy",
    "pygls",
    "lsprotocol",
    "grpc",
    "jinja2",
    "openvino",
    "openvino_genai",
    "huggingface_hub",
    "httpx",
}

PROBE = f"""
import contextlib, io, sys
import warmline_server.cli
if sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        from warmline_server.cli import app  # not main, which ends the process

        app.run(sys.argv[1:])
print(sorted({HEAVY!r} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["--help"],
        *(
            [command, "--help"]
            for command in (
                *("acp", "adapter", "bench", "cache", "catalog", "chat", "complete", "config", "demo"),
                *("doctor", "engine", "lsp", "model", "schema", "stats", "status", "trust"),
                "variant",
            )
        ),
        ["schema", "variant"],
        ["trust", "list", "--json"],
        ["variant", "list", "--json"],
        ["model", "list", "--json"],
        ["adapter", "list", "--json"],
        ["catalog", "list", "--json"],
        ["config", "list", "--json"],
        ["doctor", "--json"],
        ["cache", "list", "--json"],
        ["stats", "--json"],
        ["schema", "editor-settings"],
        ["schema", "status"],
    ],
    ids=" ".join,
)
def test_no_heavy_library_is_loaded(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
