"""The `warmline` command, for people and for programs (--json). Importing it loads no native or protocol library."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line of this process and leave with its exit code (`output.Exit`)."""
    _open_missing_streams()
    # Looking for plug-ins reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        if sys.argv[1:] == ["lsp"] and sys.stdin is not None and sys.stdout is not None and not sys.stdin.isatty():
            # An editor waits for its answer: it need not wait for all the other commands, which `app` imports.
            from warmline_server.lsp.server import run_stdio

            code = run_stdio()
        else:
            from .app import run

            code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports, before `run` could see to it
        code = 130
    sys.exit(code)


def _open_missing_streams() -> None:
    """Give the process the descriptors 0 to 2 where it was started without them (``<&-``).

    Else the next file or socket that is opened gets such a number, and what writes to stdout writes into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
        if getattr(sys, name) is None:
            mode = "r" if descriptor == 0 else "w"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good
