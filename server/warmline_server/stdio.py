"""Keeps stdout for the protocol alone: call `protect` before anything native, or any stray print, can write to it."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from io import FileIO
from typing import BinaryIO, cast


@dataclass(frozen=True, slots=True)
class Streams:
    """The peer's two streams. `reader` is raw: a read gives what has come, up to the size asked for."""

    reader: BinaryIO
    writer: BinaryIO


def protect() -> Streams:
    """Take file descriptors 0 and 1 for the protocol, once in a process.

    The protocol goes on over private duplicates, which child processes don't inherit. Descriptor 1 then is stderr, so
    that a native library's ``printf`` and a stray ``print`` land in the editor's log, and descriptor 0 reads as empty,
    so that nothing else eats the peer's messages.

    Raises
    ------
    OSError
        When descriptor 0 or 1 is closed.
    """
    # What was printed before belongs to no protocol; a buffer flushed later would go to stderr by itself.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started with stderr closed
        os.dup2(null, 1)
        os.dup2(null, 2)
    os.close(null)
    # Unbuffered on purpose: a daemon thread that waits inside a buffered reader holds its lock when the process ends.
    return Streams(cast(BinaryIO, FileIO(incoming, "rb")), open(outgoing, "wb"))
