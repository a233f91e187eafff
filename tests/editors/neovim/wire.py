"""Runs a language server and writes down every message that passes, in both directions: `wire.py LOG COMMAND...`.

Each line of the log is a JSON object with `way` (`>` to the server) and the message. The first line has the server's
process id as `pid`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from warmline_server.lsp.framing import Frames, frame

_LOCK = threading.Lock()


class _Raw:
    """Gives what there is, as `Frames` wants it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        return bytes(self._stream.read1(size))


def _note(log: BinaryIO, entry: dict[str, Any]) -> None:
    with _LOCK:
        log.write(json.dumps(entry).encode() + b"\n")
        log.flush()


def _pass_on(source: Any, target: Any, way: str, log: BinaryIO) -> None:
    frames = Frames(_Raw(source))  # type: ignore[arg-type]
    try:
        while (body := frames.next()) is not None:
            _note(log, {"way": way, "message": json.loads(body)})
            target.write(frame(body))
            target.flush()
        target.close()
    except (OSError, ValueError):
        return


def main() -> None:
    """Pass messages on until the server ends; end as it did."""
    with Path(sys.argv[1]).open("ab") as log:
        server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        _note(log, {"pid": server.pid})
        ways = ((sys.stdin.buffer, server.stdin, ">"), (server.stdout, sys.stdout.buffer, "<"))
        for source, target, way in ways:
            threading.Thread(target=_pass_on, args=(source, target, way, log), daemon=True).start()
        code = server.wait()
    os._exit(abs(code))  # the threads may sit in a read that never ends


if __name__ == "__main__":
    main()
