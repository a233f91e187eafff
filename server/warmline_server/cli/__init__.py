"""The `warmline` command, for people and for programs (--json). Importing it loads no native or protocol library."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and leave with its exit code (`output.Exit`)."""
    try:
        from .app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports, before `run` could see to it
        code = 130
    sys.exit(code)
