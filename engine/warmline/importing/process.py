"""Has a GGUF imported by a process of its own (`worker`) in bounded time; whatever happens there becomes an error."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from ..artifacts.gguf import GGUFHeader
from ..artifacts.openvino_ir import Plan, Precision, import_error
from ..errors import BackendError, StoreError, WarmlineError

# 135M take 10 s on two cores, reading from a disk that others use: ample for each, or for what a file may ask.
SECONDS: Final = 300.0
SECONDS_PER_GB: Final = 600.0
WORKER: Final = (sys.executable, "-m", "warmline.importing.worker")
_SLACK_BYTES: Final = 64 << 20
_LAST_WORDS: Final = 2_000


def check_package() -> None:
    """OpenVINO GenAI is installed; else ``backend.missing``. Nothing is loaded."""
    if importlib.util.find_spec("openvino_genai") is None or importlib.util.find_spec("openvino") is None:
        message, remedy = "OpenVINO GenAI is not installed", "Add it: pip install 'warmline[openvino]'"
        raise BackendError(message, code="backend.missing", remedy=remedy)


def check_space(folder: Path, header: GGUFHeader, plan: Plan) -> None:
    """The disk has room for the reader's network, the new weights and the saved model; else ``store.full``."""
    halves = 2 * sum(weight.tensor.n_elements for weight in plan.matmuls)
    needed = header.file_size + 2 * halves + _SLACK_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        message = f"the import needs {needed >> 20} MB of disk for a while, and {free >> 20} MB are free"
        remedy = f"Free some space on the disk of {folder}, or set WARMLINE_HOME to another; nothing was changed"
        raise StoreError(message, code="store.full", file=str(folder), remedy=remedy)


def time_limit(nbytes: int) -> float:
    """Give the seconds that the import of a file of so many bytes may take."""
    return SECONDS + SECONDS_PER_GB * nbytes / 1e9


def import_gguf(
    source: Path,
    out: Path,
    work: Path,
    *,
    label: str,
    digest: str,
    precision: Precision,
    seconds: float,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Make an OpenVINO model folder of a GGUF file whose header was checked.

    Parameters
    ----------
    out
        The folder to make; it must not be there.
    work
        A folder on the same file system for what is needed meanwhile; the caller removes it.
    label
        What errors call the file.
    digest
        The file's, for the marks.
    progress
        Called with bytes done and in all, of the GGUF's weights three times: read, repaired, proven.

    Returns
    -------
    dict
        ``marks`` as in the model's rt_info, and ``layers``: by module how far reader and result are from the GGUF.

    Raises
    ------
    WarmlineError
        What the worker found; ``artifact.import.time``; ``artifact.import.crashed``.
    """
    job = {
        "source": str(source.absolute()),
        "out": str(out),
        "work": str(work),
        "label": label,
        "digest": digest,
        "precision": precision,
        "seconds": seconds,
    }
    words = work / "words"
    with open(words, "wb") as heard, _running(job, heard) as worker, _killed_after(worker, seconds) as late:
        report = _followed(worker, progress)
        worker.wait()
    if report is not None:
        return report
    if late.is_set():
        message = f"the import was not done after {seconds:.0f} s"
        raise import_error("time", message, label, None, "Try again when the machine is less busy")
    last = words.read_bytes()[-_LAST_WORDS:].decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(last) if line.strip()), "it said nothing")
    message = f"the import ended with {worker.returncode}: {said[:300]}"
    raise import_error("crashed", message, label, None, "Run this base on llama.cpp, or try another file of it")


@contextlib.contextmanager
def _running(job: Mapping[str, Any], heard: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    command = [*WORKER, json.dumps(job)]
    # Its stdin is never written to: it ends when this process does.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=heard) as worker:
        try:
            yield worker
        finally:
            worker.kill()


@contextlib.contextmanager
def _killed_after(worker: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    late = threading.Event()

    def end() -> None:
        late.set()
        worker.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _followed(worker: subprocess.Popen[bytes], progress: Callable[[int, int], None] | None) -> dict[str, Any] | None:
    """Read what the worker answers until it ends; its report, or None where it gave none."""
    assert worker.stdout is not None
    report: dict[str, Any] | None = None
    for line in worker.stdout:
        try:
            answer = json.loads(line)
        except ValueError:
            continue  # cut off in the middle by its end
        if "error" in answer:
            raise WarmlineError.from_dict(answer["error"])
        if progress is not None and "progress" in answer:
            progress(*answer["progress"])
        report = answer.get("report", report)
    return report


def sync(folder: Path) -> None:
    """Have the files of the imported folder on the disk, for the user alone."""
    for path in folder.iterdir():
        path.chmod(0o600)
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
