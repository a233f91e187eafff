"""The `warmline` command: for people and, with --json, for programs. Importing it loads no native or protocol library."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and leave with its exit code (`warmline_server.cli.output.Exit`)."""
    from .app import run

    sys.exit(run(sys.argv[1:]))
