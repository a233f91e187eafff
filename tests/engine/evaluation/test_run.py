"""An evaluation: all sides, all tasks, in turn; interrupted anywhere, it goes on to the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from warmline.errors import ArtifactError, EvaluationError
from warmline.evaluation.partial import Partial
from warmline.evaluation.reading import Suite
from warmline.evaluation.run import Reply, measure
from warmline.evaluation.tasks import AnyTask, Call, Expect, Header, Hole, Infill, Reason, Smoke, ToolSpec, ToolUse

IDENTITY = "sha256:" + "a" * 64
TASKS = tuple(Hole(id=f"t{n}", before="a", wanted=f"value {n}") for n in range(6))


def suite(*tasks: AnyTask) -> Suite:
    return Suite(Header(schema_version=1, name="s", kind="holes"), tasks or TASKS, "sha256:" + "0" * 64, "")


class Scripted:
    """A side that says what it is told to, and remembers what it was asked."""

    def __init__(self, asked: list[str], name: str, answer: Callable[[AnyTask], Reply] | None = None) -> None:
        self.identity = IDENTITY
        self.asked = asked
        self.name = name
        self._answer = answer

    async def ask(self, task: AnyTask) -> Reply:
        self.asked.append(f"{self.name} {task.id}")
        if self._answer is not None:
            return self._answer(task)
        return Reply(f"value {task.id[1:]}", IDENTITY, 5.0)


def partial(folder: Path) -> Partial:
    return Partial(folder, {"a": 1})


async def test_sides_take_turns(tmp_path: Path) -> None:
    asked: list[str] = []
    told: list[tuple[int, int]] = []
    kept = partial(tmp_path)
    with kept.open():
        rows = await measure(
            suite(),
            {"variant": Scripted(asked, "variant"), "against": Scripted(asked, "against")},
            kept,
            progress=lambda done, total: told.append((done, total)),
        )
    assert asked[:4] == ["variant t0", "against t0", "against t1", "variant t1"]
    assert len(rows) == 12
    assert told[0] == (1, 12)
    assert told[-1] == (12, 12)
    assert all(row.scores["first_line_exact"] == 1 and row.scores["latency_ms"] == 5 for row in rows)


@pytest.mark.parametrize("stop", range(6))
async def test_an_interrupt_anywhere_costs_no_answer(tmp_path: Path, stop: int) -> None:
    asked: list[str] = []

    def interrupted(task: AnyTask) -> Reply:
        if task.id == f"t{stop}":
            raise asyncio.CancelledError
        return Reply(f"value {task.id[1:]}", IDENTITY, 5.0)

    with partial(tmp_path).open():
        pass
    kept = partial(tmp_path)
    with pytest.raises(asyncio.CancelledError), kept.open():
        await measure(suite(), {"variant": Scripted(asked, "first", interrupted)}, kept)
    with kept.path.open("a") as file:
        file.write('{"side": "variant", "task": "t5", "sco')  # what a crash leaves
    again = partial(tmp_path)
    with again.open():
        assert len(again.rows) == stop
        rows = await measure(suite(), {"variant": Scripted(asked, "second")}, again)
    assert [row.task for row in rows] == [task.id for task in TASKS]
    assert [each for each in asked if each.startswith("second")] == [f"second t{n}" for n in range(stop, 6)]
    last = partial(tmp_path)
    with last.open():
        assert len(last.rows) == 6
    with last.open(fresh=True):
        assert not last.path.exists()


async def test_another_subject_has_answers_of_its_own(tmp_path: Path) -> None:
    one, other = Partial(tmp_path, {"identity": "a"}), Partial(tmp_path, {"identity": "b"})
    assert one.path != other.path
    with one.open(), pytest.raises(EvaluationError) as caught, Partial(tmp_path, {"identity": "a"}).open():
        pass
    assert caught.value.code == "evaluation.running"


async def test_a_variant_that_disappears_ends_it_with_its_own_reason(tmp_path: Path) -> None:
    def gone(task: AnyTask) -> Reply:
        if task.id == "t3":
            raise ArtifactError("the file does not exist", code="artifact.missing", file="x.gguf", remedy="Put it back")
        return Reply("x", IDENTITY, 1.0)

    kept = partial(tmp_path)
    with pytest.raises(EvaluationError) as caught, kept.open():
        await measure(suite(), {"variant": Scripted([], "v", gone)}, kept)
    error = caught.value
    assert (error.code, error.file) == ("evaluation.stopped", "x.gguf")
    assert "after 3 of 6 answers" in error.message
    assert "Put it back" in error.remedy
    with kept.open():
        assert len(kept.rows) == 3


async def test_a_variant_that_changes_ends_it(tmp_path: Path) -> None:
    def changed(task: AnyTask) -> Reply:
        return Reply("x", IDENTITY if task.id != "t2" else "sha256:" + "b" * 64, 1.0)

    kept = partial(tmp_path)
    with pytest.raises(EvaluationError) as caught, kept.open():
        await measure(suite(), {"variant": Scripted([], "v", changed)}, kept)
    assert caught.value.code == "evaluation.changed"
    with kept.open():
        assert len(kept.rows) == 2  # the answer of another variant is not among them


TOOL = ToolSpec(name="read_file", description="reads", parameters={"type": "object", "properties": {}})
READ = Call(tool="read_file", arguments={"path": "a"})


@pytest.mark.parametrize(
    ("expect", "reply", "scores"),
    [
        (READ, {"tool": "read_file", "arguments": {"path": "a", "more": 1}}, (1, 1)),
        (READ, {"tool": "read_file", "arguments": {"path": "b"}}, (1, 0)),
        (READ, {"tool": "read_file", "arguments": {}}, (1, 0)),
        (READ, {"tool": "other", "arguments": {"path": "a"}}, (1, 0)),
        (READ, {"text": "it reads a"}, (1, 0)),
        (READ, {"well_formed": False}, (0, 0)),
        (None, {"text": "four"}, (1, 1)),
        (None, {"text": ""}, (1, 0)),
        (None, {"tool": "read_file"}, (1, 0)),
    ],
)
async def test_tool_calls(
    tmp_path: Path, expect: Call | None, reply: dict[str, object], scores: tuple[int, int]
) -> None:
    task = ToolUse(id="t", say="x", tools=(TOOL,), expect=expect)
    side = Scripted([], "v", lambda _: Reply(**{"text": None, "identity": IDENTITY, "ms": 1.0, **reply}))  # type: ignore[arg-type]
    kept = partial(tmp_path)
    with kept.open():
        (row,) = await measure(suite(task), {"variant": side}, kept)
    assert (row.scores["format_validity"], row.scores["pass_at_1"]) == scores


async def test_thoughts_and_expectations(tmp_path: Path) -> None:
    expect = Expect(contains=("7",))
    tasks = (Reason(id="r", say="x", expect=expect), Smoke(id="s", say="x", expect=expect))
    kept = partial(tmp_path)
    side = Scripted([], "v", lambda task: Reply("7", IDENTITY, 1.0, well_formed=task.id != "r"))
    with kept.open():
        reason, smoke = await measure(suite(*tasks), {"variant": side}, kept)
    assert (reason.scores["format_validity"], reason.scores["pass_at_1"]) == (0, 0)
    assert smoke.scores["pass_at_1"] == 1


async def test_code_runs_only_where_it_is_allowed(tmp_path: Path) -> None:
    task = Infill(id="i", before="a", wanted="b", entry_point="f", reference="", test="")
    kept = partial(tmp_path)
    side = Scripted([], "v", lambda _: Reply("b", IDENTITY, 1.0))
    with kept.open():
        with pytest.raises(EvaluationError) as caught:
            await measure(suite(task), {"variant": side}, kept)
        assert caught.value.code == "evaluation.run_code"
        (row,) = await measure(suite(task), {"variant": side}, kept, tester=lambda task, text: (text == "b", "why"))
    assert (row.scores["pass_at_1"], row.note) == (1, "why")
