"""`warmline lsp`: the language server on stdio, started by editors."""

from __future__ import annotations

import sys

import typer

from .output import Exit

_FOR_PEOPLE = """\
This is Warmline's language server. It talks the Language Server Protocol on stdin and stdout, so an editor starts it:

  Neovim     in init.lua (0.11 or newer):
               vim.lsp.config('warmline', {
                 cmd = { 'warmline', 'lsp' },
                 root_markers = { '.warmline' },
               })
               vim.lsp.enable('warmline')

  VS Code    with an extension that starts language servers of one's choice; command and transport as below

  others     command: warmline lsp    transport: stdio

What its engine does: warmline engine logs    To end that engine: warmline engine stop
To see it work without an editor: warmline demo
"""


def command() -> None:
    """Serve editors on stdio (an editor starts this)."""
    if sys.stdin.isatty():
        sys.stderr.write(_FOR_PEOPLE)
        raise typer.Exit(Exit.USAGE)
    from warmline_server.lsp.server import run_stdio

    raise typer.Exit(run_stdio())
