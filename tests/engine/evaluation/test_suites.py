"""Suites as files: what is wrong is told with file and line; the same content has the same digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from warmline.errors import EvaluationError
from warmline.evaluation import reading
from warmline.evaluation.reading import load_suite, shipped
from warmline.evaluation.source import sources_of
from warmline.evaluation.tasks import Hole, Infill
from warmline.schemas import SCHEMAS, json_schema

HEADER = {"schema": 1, "name": "ours", "kind": "style"}
TASK = {"id": "one", "before": "def f(", "after": "def f(ledger: Ledger) -> Result:"}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def refused(path: Path, code: str, **how: Any) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        load_suite(str(path), **how)
    assert caught.value.code == code, caught.value
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{not json", "line 3"),
        ({**TASK, "id": "two", "befor": "x"}, "line 3: befor"),
        ({"id": "two", "before": "x"}, "line 3: after"),
        ({**TASK, "id": "two", "after": "something else"}, "line 3"),
        (TASK, "line 3: id"),
        ({**TASK, "id": "two", "after": 7}, "line 3: after"),
        ("[1]", "line 3"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: Any, field: str) -> None:
    path = write(tmp_path / "s.jsonl", HEADER, TASK, line)
    error = refused(path, "evaluation.line")
    assert (error.file, error.field) == (str(path), field)


@pytest.mark.parametrize(("version", "word"), [(0, "Write it anew"), (2, "Update Warmline")])
def test_another_version_is_refused_with_what_to_do(tmp_path: Path, version: int, word: str) -> None:
    path = write(tmp_path / "s.jsonl", {"schema": version, "something": "new"}, TASK)
    error = refused(path, "evaluation.schema")
    assert word in error.remedy
    assert "line 1" in error.message


@pytest.mark.parametrize(
    "header",
    [
        {"schema": 1, "name": "ours", "kind": "nothing"},
        {"schema": "1", "name": "ours", "kind": "style"},
        {**HEADER, "thresholds": [{"metric": "shown"}]},
        {**HEADER, "thresholds": [{"metric": "shown", "at_least": 1, "at_most": 2}]},
        {**HEADER, "thresholds": [{"metric": "shown", "at_least": "NaN"}]},
        {**HEADER, "count": 0},
        "",
    ],
)
def test_a_malformed_header_is_named(tmp_path: Path, header: Any) -> None:
    path = write(tmp_path / "s.jsonl", header, TASK)
    error = refused(path, "evaluation.line")
    assert error.field is not None
    assert error.field.startswith("line 1" if header else "line 2")


def test_a_suite_without_tasks_or_file_is_refused(tmp_path: Path) -> None:
    refused(write(tmp_path / "s.jsonl", HEADER), "evaluation.line")
    refused(write(tmp_path / "empty.jsonl"), "evaluation.line")
    refused(tmp_path / "missing.jsonl", "evaluation.suite")
    refused(Path("no-such-suite"), "evaluation.suite")
    (tmp_path / "latin.jsonl").write_bytes(json.dumps(HEADER).encode() + b"\n\xe9\n")
    assert refused(tmp_path / "latin.jsonl", "evaluation.line").field == "line 2"


def test_tasks_that_run_code_come_from_the_package_alone(tmp_path: Path) -> None:
    """Else a suite's file could bring code that runs where the tests run."""
    header = {"schema": 1, "name": "evil", "kind": "humaneval-infill"}
    task = {"id": "x", "before": "a", "wanted": "b", "entry_point": "f", "reference": "import os", "test": "os"}
    error = refused(write(tmp_path / "s.jsonl", header, task), "evaluation.line")
    assert error.field == "line 2"


def test_the_digest_is_of_content_and_not_of_place(tmp_path: Path) -> None:
    one = load_suite(str(write(tmp_path / "a.jsonl", HEADER, TASK)))
    same = load_suite(str(write(tmp_path / "b.jsonl", {**HEADER, "description": "other words"}, TASK)))
    assert one.digest == same.digest
    others = [
        ({**HEADER, "seed": 2}, TASK),
        ({**HEADER, "max_tokens": 8}, TASK),
        ({**HEADER, "thresholds": [{"metric": "shown", "at_least": 0.5}]}, TASK),
        (HEADER, {**TASK, "after": TASK["after"] + "."}),
    ]
    digests = {load_suite(str(write(tmp_path / "c.jsonl", *lines))).digest for lines in others}
    assert len(digests | {one.digest}) == 5


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "node_modules").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for number in range(6):
        lines = "".join(f"    value_{n} = compute_{number}(value_{n - 1}, {n})\n" for n in range(1, 6))
        (folder / f"m{number}.py").write_text(f"def f{number}(value_0):\n{lines}    return value_5\n")
    (folder / "copy.py").write_text((folder / "m0.py").read_text())
    (folder / "node_modules" / "x.py").write_text("def f():\n    return something_else()\n")
    (folder / ".hidden" / "x.py").write_text("def f():\n    return something_else()\n")
    (folder / "notes.txt").write_text("    not code at all, whatever it looks like\n")
    (folder / "a.ts").write_text("function f() {\n  const answer = compute(41);\n  return answer + 1;\n}\n")
    return folder


def test_holes_are_seeded_and_say_what_stood_there(code: Path) -> None:
    one, same = (load_suite("holes", folder=code, count=7) for _ in range(2))
    other = load_suite("holes", folder=code, count=7, seed=2)
    assert one.digest == same.digest != other.digest
    assert len({task.path for task in one.tasks if isinstance(task, Hole)}) == 7  # one in each file before a second
    for task in one.tasks:
        assert isinstance(task, Hole)
        whole = task.before + task.wanted + task.after
        assert whole in {path.read_text() for path in code.glob("*.*") if path.is_file()}
        assert "something_else" not in whole
        assert "not code" not in whole


def test_no_text_of_a_hole_is_in_what_the_model_sees(code: Path) -> None:
    """Each statement stands in its file once; a copy of the file is not taken for another."""
    assert len([each for each in sources_of(code) if "compute_0" in each.text]) == 1
    for task in load_suite("holes", folder=code, count=12).tasks:
        assert isinstance(task, Hole)
        line = (task.before + task.wanted).rsplit("\n", 1)[-1]
        assert line not in task.before
        assert line not in task.after


def test_a_folder_without_enough_code_is_refused(tmp_path: Path, code: Path) -> None:
    refused(Path("holes"), "evaluation.folder")
    refused(Path("holes"), "evaluation.folder", folder=tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    refused(Path("holes"), "evaluation.folder", folder=tmp_path / "empty")
    assert "not 5000" in refused(Path("holes"), "evaluation.folder", folder=code, count=5000).message


def test_holes_in_solutions_lie_in_the_solution(tmp_path: Path) -> None:
    suite = load_suite("humaneval-infill")
    assert len(suite.tasks) == 164
    for task in suite.tasks:
        assert isinstance(task, Infill)
        assert task.before + task.wanted + task.after == task.reference
        assert f"def {task.entry_point}" in task.before
    assert load_suite("humaneval-infill", count=3).tasks == load_suite("humaneval-infill", count=3).tasks


@pytest.mark.parametrize("name", shipped())
def test_what_comes_with_warmline_can_be_read_and_certifies_something(name: str, code: Path) -> None:
    suite = load_suite(name, folder=code, count=5)
    assert suite.header.name == name
    assert suite.header.thresholds
    assert len(suite.tasks) == 5


def test_the_schema_says_what_a_suite_is(tmp_path: Path) -> None:
    assert {"suite", "certificate"} <= set(SCHEMAS)
    schema = json_schema("suite")
    for name in shipped():
        for line in (Path(reading.__file__).parent / "suites" / f"{name}.jsonl").read_text().splitlines():
            jsonschema.validate(json.loads(line), schema)
    jsonschema.validate(TASK, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**TASK, "befor": "x"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**HEADER, "schema": 2}, schema)
