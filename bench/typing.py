"""Typing, with Warmline and with llama-server, in one run: at the engine, and as a person in an editor waits.

    python bench/llama_server.py build        # the peer, once
    python bench/typing.py [--files 5] [--keys 100] [--threads 1] [--adapter FILE.gguf] [--quick] [--json]

In the editor (`typing_lsp.py`): the wait for a suggestion after each key. This is what is judged: at most 0.8 of the
peer's, in the mean.

At the engine (`keystrokes.py`): first token and whole answer of one request a key, turn about. This is told and not
judged: nine tenths of a first token are one native decode, the same on both sides, so that no engine can be much faster
than another there, whatever it adds; what each adds is told beside it. With an adapter, another model, the engine in
the bench or the peer's batches made equal, this alone is measured.

This file has the name of a module of the standard library, and Python puts the folder of a script first on its path:
so it also gives way, for any script in this folder that imports `typing`.
"""

from __future__ import annotations

import os
import sys


def _give_way() -> None:
    """Put the standard library's `typing` where this file would be found."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if os.path.abspath(entry or ".") != here]
    if __name__ == "typing":
        del sys.modules["typing"]
    try:
        import typing  # noqa: F401  # for its place in sys.modules
    finally:
        sys.path[:] = path


_give_way()


def main() -> int:
    """Run both parts; return the exit status."""
    import argparse
    from collections.abc import Callable
    from typing import Any

    import keystrokes
    import typing_lsp
    from hosted import run_and_show
    from rich.console import Console

    options = keystrokes.options_from(None)
    alone = options.adapter or options.model or options.same_batches or options.engine != "host"
    if alone or options.threads != keystrokes.default_threads():
        return run_and_show(options, keystrokes.run, keystrokes.show, width=168)

    async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
        report = await keystrokes.run(options, say)
        editor = await typing_lsp.run(argparse.Namespace(**vars(options), pause=typing_lsp.PAUSE), say)
        return {**report, "editor": editor, "targets": editor["targets"]}

    def show(report: dict[str, Any], console: Console) -> None:
        keystrokes.show(report, console)
        typing_lsp.show(report["editor"], console)

    return run_and_show(options, run, show, width=168)


if __name__ == "__main__":
    sys.exit(main())
