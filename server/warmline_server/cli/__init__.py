"""The `warmline` command, for people and for programs (--json). Importing it loads no native or protocol library."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from typing import Final, NoReturn

_NEW_OBJECTS: Final = 50_000  # between two searches for garbage


def main() -> NoReturn:
    """Run the command line of this process and leave with its exit code (`output.Exit`)."""
    _open_missing_streams()
    # Imports make many objects and no garbage: looking for it as often as usual costs a tenth of a short command.
    gc.set_threshold(_NEW_OBJECTS)
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
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process as `sys.exit` does, without taking every object apart first: that is a seventh of a list."""
    if threading.active_count() > 1:
        sys.exit(code)  # it waits for them
    _flush()
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more: the code says what there was to say
            stream.flush()


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
