"""First token and whole answer while a person types: Warmline's engine and llama-server, turn about, in one run.

    python bench/llama_server.py build        # the peer, once
    python bench/typing.py [--files 5] [--keys 100] [--threads 1] [--adapter FILE.gguf] [--quick] [--json]

The bench itself, and what it does and does not compare, is in `keystrokes.py`. This file has the name of a module of
the standard library, and Python puts the folder of a script first on its path: so it also gives way, for any script in
this folder that imports `typing`.
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

if __name__ == "__main__":
    from keystrokes import main

    sys.exit(main())
