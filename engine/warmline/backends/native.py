"""The llama.cpp library: imported once, its log captured, its version read from what runs."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from ..errors import BackendError
from .base import libc

# enum ggml_log_level in ggml.h: NONE 0, DEBUG 1, INFO 2, WARN 3, ERROR 4, CONT 5 (goes on with the line before).
_WARN: Final = 3
_CONT: Final = 5

_lines: deque[str] = deque(maxlen=200)
_lock = threading.Lock()
_level = 0
_keep_alive: list[Any] = []


def _on_log(level: int, text: bytes, _user_data: object) -> None:
    global _level
    with _lock:
        if level != _CONT:
            _level = level
        if _level >= _WARN and _level != _CONT:
            line = text.decode("utf-8", "replace").strip()
            if line:
                _lines.append(line)


@lru_cache(maxsize=1)
def llama() -> ModuleType:
    """Import llama.cpp, point its log at us, start it, and return the low-level module.

    The caller has moved file descriptor 1 away when stdout is a protocol's: native code prints there.

    Raises
    ------
    BackendError
        ``backend.missing`` when the library is not installed or cannot be loaded.
    """
    try:
        import llama_cpp.llama_cpp as module
    except (ImportError, OSError, RuntimeError, FileNotFoundError) as error:
        raise BackendError(
            f"llama.cpp cannot be loaded: {error}",
            code="backend.missing",
            remedy="Install it: pip install llama-cpp-python==0.3.36",
        ) from None
    callback = module.llama_log_callback(_on_log)
    _keep_alive.append(callback)
    module.llama_log_set(callback, None)
    module.llama_backend_init()
    return cast(ModuleType, module)


def forget_log() -> None:
    """Begin to collect anew the warnings and errors that native code logs, for `recent_log`."""
    _lines.clear()


def recent_log() -> list[str]:
    """Return what native code logged since `forget_log`, the latest lines of it."""
    with _lock:
        return list(_lines)


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """Collect the warnings and errors that native code logs inside the block; the list is filled when it ends."""
    forget_log()
    lines: list[str] = []
    try:
        yield lines
    finally:
        lines += recent_log()


def last_words(lines: list[str], limit: int = 3) -> str:
    """Join the last distinct log lines into one short text for an error."""
    return "; ".join(list(dict.fromkeys(lines))[-limit:])[:600] or "no reason given"


@lru_cache(maxsize=1)
def version() -> str:
    """Return llama.cpp's version and a digest of the shared libraries that run.

    The library's own version string does not tell builds apart, and another build may compute other logits.
    """
    module = llama()
    sha = hashlib.sha256()
    libraries = sorted(Path(module.__file__ or "").parent.joinpath("lib").glob("*"))
    for library in libraries:
        if library.is_file() and not library.is_symlink() and ("llama" in library.name or "ggml" in library.name):
            sha.update(library.name.encode() + b"\0" + hashlib.sha256(library.read_bytes()).digest())
    return f"{module.llama_version().decode()}+{sha.hexdigest()[:12]}"


class NativeFile:
    """A C ``FILE*`` over a duplicate of a descriptor, so that native code reads the bytes that were hashed."""

    def __init__(self, fd: int) -> None:
        import os

        self._libc = libc()
        self._libc.fdopen.restype = ctypes.c_void_p
        self._libc.fdopen.argtypes = [ctypes.c_int, ctypes.c_char_p]
        self._libc.fclose.argtypes = [ctypes.c_void_p]
        duplicate = os.dup(fd)
        os.lseek(duplicate, 0, os.SEEK_SET)
        self.pointer: int | None = self._libc.fdopen(duplicate, b"rb")
        if not self.pointer:
            os.close(duplicate)
            raise BackendError("the C library cannot open the file", code="backend.file", remedy="Close other programs")

    def close(self) -> None:
        """Close the ``FILE*``. Idempotent."""
        if self.pointer:
            self._libc.fclose(self.pointer)
            self.pointer = None
