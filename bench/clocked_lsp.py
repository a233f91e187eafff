"""`warmline lsp` with a clock in it: what handling each `didChange` takes, for the bench that started it.

    python bench/clocked_lsp.py TIMES        # storm_lsp.py starts it, nobody else

This is `python -m warmline_server lsp` but for two wrappers. A change is timed from the moment its bytes were read off
the pipe until its handler has returned: that takes in the wait for the event loop, whatever that is busy with, the
reading of the JSON, and the edit. At the end the milliseconds are in the file TIMES, one a line.
"""

from __future__ import annotations

import atexit
import functools
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from warmline_server import cli
from warmline_server.lsp import sync
from warmline_server.lsp.framing import Frames

_CHANGE = b'"textDocument/didChange"'


def main() -> None:
    """Serve, and write what was measured when the server ends."""
    target = Path(sys.argv[1])
    read: deque[float] = deque()
    times: list[float] = []
    next_frame, did_change = Frames.next, sync.did_change

    def timed_next(frames: Frames) -> bytes | None:
        body = next_frame(frames)
        if body is not None and _CHANGE in body:
            read.append(time.perf_counter())
        return body

    @functools.wraps(did_change)  # pygls looks at the signature
    def timed_change(*arguments: Any) -> None:
        did_change(*arguments)
        times.append((time.perf_counter() - read.popleft()) * 1000)

    # The handler is registered by what the module says when the protocol is imported, which is later.
    Frames.next, sync.did_change = timed_next, timed_change  # type: ignore[method-assign]
    atexit.register(lambda: target.write_text("".join(f"{each:.4f}\n" for each in times)))
    sys.argv = ["warmline", "lsp"]
    cli.main()


if __name__ == "__main__":
    main()
