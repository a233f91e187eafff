"""The process in which a model's code runs: confined, then one call after another as it is asked for."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Final

from .confinement import confine, end_with_parent
from .values import NotPlainError, decode, encode

# What solutions import: once confined, nothing can be read any more.
_PRELOADED: Final = (
    "abc array base64 bisect cmath collections collections.abc copy dataclasses datetime decimal enum fractions "
    "functools hashlib heapq itertools json math numbers operator queue random re statistics string struct sys "
    "textwrap time types typing unicodedata zlib encodings.ascii encodings.latin_1 encodings.idna _strptime traceback"
)


def main() -> None:
    """Read the job, confine, run the code, then serve calls until the pipe ends."""
    end_with_parent()
    reader, answers = _Lines(os.dup(0)), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    job = json.loads(reader.next())
    for name in _PRELOADED.split():
        importlib.import_module(name)
    holds = confine(job["folder"], job["cpu_seconds"], job["memory"])
    _say(answers, {"holds": holds})
    names: dict[str, Any] = {"__name__": "solution"}
    try:
        exec(compile(job["code"], "solution", "exec"), names)
        function = names[job["entry_point"]]
    except BaseException as error:
        _say(answers, {"error": type(error).__name__})
        return
    _say(answers, {"value": None})
    while line := reader.next():
        _say(answers, _called(function, json.loads(line)))


def _called(function: Any, request: Any) -> dict[str, Any]:
    try:
        positional, named = decode(request["positional"]), decode(request["named"])
        return {"value": encode(function(*positional, **named))}
    except NotPlainError as error:
        return {"error": str(error)}
    except BaseException as error:  # exits too: whatever it raises, the call has failed
        return {"error": type(error).__name__}


def _say(descriptor: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


class _Lines:
    """Lines of a descriptor, by the only two calls that are left."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = b""

    def next(self) -> bytes:
        """Return the next line; empty at the end."""
        while b"\n" not in self._data:
            more = os.read(self._descriptor, 1 << 16)
            if not more:
                return b""
            self._data += more
        line, _, self._data = self._data.partition(b"\n")
        return line
