"""Has one job done by a fresh process (`worker`); whatever happens there becomes an error."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Final

from ..errors import WarmlineError
from .job import Answer, Job

WORKER: Final = (sys.executable, "-m", "warmline.benchmark.worker")
_LAST_WORDS: Final = 2_000


def ask(job: Job) -> Answer:
    """Start a worker, wait for its answer and see it end; it is killed when this is interrupted.

    Raises
    ------
    WarmlineError
        What the worker found; ``bench.crashed`` where it ended without an answer.
    """
    with tempfile.TemporaryFile() as heard:
        # A session of its own: an interrupt at the terminal is this process's to handle.
        with subprocess.Popen(
            [*WORKER, job.model_dump_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=heard,
            start_new_session=True,
        ) as worker:
            try:
                assert worker.stdout is not None
                said = worker.stdout.read()
            finally:
                worker.kill()
        try:
            answer = Answer.model_validate_json(said)
        except ValueError:
            heard.seek(0)
            words = heard.read()[-_LAST_WORDS:].decode("utf-8", "replace").split("\n")
            last = next((line.strip() for line in reversed(words) if line.strip()), "it said nothing")
            raise WarmlineError(
                f"the process that measures `{job.variant.name}` ended with {worker.returncode}: {last[:300]}",
                code="bench.crashed",
                file=job.variant.file,
                remedy="Check that memory suffices for this base, then try again",
            ) from None
    if answer.error is not None:
        raise WarmlineError.from_dict(answer.error.model_dump())
    return answer
