"""`warmline acp`: the agent on stdio, started by editors and other clients of the Agent Client Protocol."""

from __future__ import annotations

import sys

import typer

from .output import Exit

_FOR_PEOPLE = """\
This is Warmline's agent. It talks the Agent Client Protocol on stdin and stdout, so a client starts it:

  Zed        in settings.json:
               "agent_servers": {
                 "Warmline": { "type": "custom", "command": "warmline", "args": ["acp"] }
               }

  others     command: warmline acp    transport: stdio

It answers with the variant that the workspace selects; the client shows which, and switches.
In a terminal: warmline chat
"""


def command() -> None:
    """Serve agent clients on stdio (an editor starts this)."""
    if sys.stdin.isatty():
        sys.stderr.write(_FOR_PEOPLE)
        raise typer.Exit(Exit.USAGE)
    from warmline_server.acp.serving import run_stdio

    raise typer.Exit(run_stdio())
