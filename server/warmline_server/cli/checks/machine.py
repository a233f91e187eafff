"""The machine: Python, the native library and its functions, the processor, memory."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from warmline.backends.base import default_threads

from . import Check, fail, ok, warn

_OLDEST: Final = (3, 11)
_REINSTALL: Final = "Install it again where it runs: pip install --force-reinstall --no-cache-dir llama-cpp-python"
# Without these a token takes several times as long; ggml names them so.
_WANTED: Final = {"x86_64": ("AVX2", "FMA"), "AMD64": ("AVX2", "FMA"), "aarch64": ("NEON",), "arm64": ("NEON",)}
_LITTLE: Final = 1 << 30


def python() -> Check:
    """The interpreter, and Warmline's own version."""
    found = platform.python_version()
    try:
        own = version("warmline")
    except PackageNotFoundError:
        own = "from a checkout"
    if sys.version_info < _OLDEST:
        return fail("python", f"Python {found} is too old", "Use Python 3.11 or newer")
    return ok("python", f"Python {found}, Warmline {own}", executable=sys.executable)


def native(seconds: float) -> list[Check]:
    """The native library, its functions and what it makes of this processor; asked in a process of its own."""
    command = [sys.executable, "-m", "warmline_server.cli.checks.native_probe"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return [fail("native library", f"llama.cpp does not answer within {seconds:.0f} s", _REINSTALL)]
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1][:300]
        message = f"llama.cpp ends its process ({how})" + (f": {said}" if said else "")
        return [fail("native library", message, _REINSTALL)]
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return [fail("native library", "llama.cpp gives no answer that can be read", _REINSTALL)]
    if "error" in found:
        error = found["error"]
        return [fail("native library", error["message"], error["remedy"])]
    checks = [ok("native library", f"llama.cpp {found['version']}")]
    if found["missing"]:
        message = f"missing: {', '.join(found['missing'])}"
        checks.append(fail("native functions", message, _REINSTALL, missing=found["missing"]))
    else:
        message = f"all {found['probed']} that are probed are there, those for adapters among them"
        checks.append(ok("native functions", message))
    return [*checks, processor(str(found["system"]))]


def processor(system: str) -> Check:
    """What the native library uses of the processor.

    Parameters
    ----------
    system
        llama.cpp's own line: ``CPU : SSE3 = 1 | AVX2 = 1 | ...``.
    """
    pairs = (part.rpartition(":")[2].split("=") for part in system.split("|") if "=" in part)
    used = [name.strip() for name, value in (pair for pair in pairs if len(pair) == 2) if value.strip() == "1"]
    threads = default_threads()
    message = f"{platform.machine()}, {os.cpu_count()} logical CPUs, {threads} for the engine; {', '.join(used)}"
    lacking = [name for name in _WANTED.get(platform.machine(), ()) if name not in used]
    if lacking:
        remedy = "Use a build for this processor, or expect slow answers"
        return warn("processor", f"{message}; without {', '.join(lacking)}", remedy, features=used, threads=threads)
    return ok("processor", message, features=used, threads=threads)


def memory(largest: Callable[[], int]) -> Check:
    """Memory that is free, against the largest installed base.

    Parameters
    ----------
    largest
        Gives that base's bytes, 0 without any.
    """
    from warmline.memory import available_bytes

    from ..amounts import size

    free = available_bytes()
    if free is None:
        return ok("memory", "the system does not say how much is free")
    need = largest()
    detail = {"available_bytes": free, "largest_base_bytes": need}
    if need and free < need * 1.5:
        message = f"{size(free)} free, and the largest base has {size(need)}"
        return warn("memory", message, "Close other programs, or use a smaller base", **detail)
    if free < _LITTLE:
        return warn("memory", f"{size(free)} free", "Close other programs", **detail)
    return ok("memory", f"{size(free)} free" + (f", largest base {size(need)}" if need else ""), **detail)
