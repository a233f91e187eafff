"""The process that measures: it begins with nothing, does one job, and ends.

It is told a `job.Job` in its arguments and answers with one line of JSON on the descriptor that was its stdout. It ends
when its stdin does, for whoever started it is gone then.
"""

from __future__ import annotations

import os
import sys
import threading

from ..errors import WarmlineError
from ..importing.worker import end_with_parent
from .job import Answer, Job
from .report import error_info


def main() -> None:
    """Do the job of `sys.argv` (see `process.ask`, which starts this)."""
    job = Job.model_validate_json(sys.argv[1])
    answers = os.dup(1)
    os.dup2(2, 1)  # native code prints to stdout
    threading.Thread(target=end_with_parent, daemon=True).start()
    with os.fdopen(answers, "w") as out:
        out.write(_answer(job).model_dump_json() + "\n")
    os._exit(0)  # whatever native code does at its end is of no interest


def _answer(job: Job) -> Answer:
    from .measure import Bench

    try:
        bench = Bench(job)
        return Answer(label=bench.check()) if job.task == "check" else Answer(run=bench.measure())
    except WarmlineError as error:
        return Answer(error=error_info(error).model_copy(update={"file": error.file}))


if __name__ == "__main__":
    main()
