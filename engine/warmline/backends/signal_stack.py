"""Keeps a thread's alternate signal stack: OpenVINO's compilation names another one, frees it, and leaves it named."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Stack(ctypes.Structure):
    """``stack_t`` of sigaltstack(2) on Linux."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def kept_signal_stack() -> Iterator[None]:
    """Put back the calling thread's alternate signal stack, whatever is done to it meanwhile; Linux only.

    Python's handlers run on it: with one that is no memory any more, the next signal ends the process (SIGSEGV), and
    no crash is noted of it. Seen with OpenVINO 2026.4 on the CPU, at each ``compile_model``.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    libc = ctypes.CDLL(None)
    before = _Stack()
    libc.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaltstack(ctypes.byref(before), None)
