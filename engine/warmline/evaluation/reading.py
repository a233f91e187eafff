"""Suites as files: read with errors that name file and line, made where their tasks are made, and their digest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ..digests import bytes_digest, open_regular
from ..errors import ArtifactError, ConfigError, EvaluationError
from ..filemodel import FileModel, parse
from ..variant import Claim
from .humaneval import infill_tasks
from .source import cut_holes, sources_of
from .tasks import CLAIM_OF, MADE, MAX_TASKS, SCHEMA, TASK_OF, AnyTask, Header, Hole, Task

MAX_BYTES: Final = 64 << 20
_SHIPPED: Final = Path(__file__).parent / "suites"
_DEFAULT_COUNT: Final = 120


@dataclass(frozen=True, slots=True)
class Suite:
    """A header and its tasks. `digest` is of both, so of the code that holes were cut from, and not of any path."""

    header: Header
    tasks: tuple[AnyTask, ...]
    digest: str
    file: str

    @property
    def claim(self) -> Claim:
        """What a certificate may say on its word."""
        return CLAIM_OF[self.header.kind]


def shipped() -> list[str]:
    """List the names of the suites that come with Warmline."""
    return sorted(path.stem for path in _SHIPPED.glob("*.jsonl"))


def find_suite(name: str) -> Path:
    """Return the file of a suite: a path, or the name of one that comes with Warmline.

    Raises
    ------
    EvaluationError
        ``evaluation.suite``: it is neither.
    """
    path = Path(name)
    if path.suffix == ".jsonl" or path.is_file():
        return path
    if name in shipped():
        return _SHIPPED / f"{name}.jsonl"
    raise EvaluationError(
        f"there is no suite `{name}`",
        code="evaluation.suite",
        field="--suite",
        remedy=f"Name a .jsonl file, or one of: {', '.join(shipped())}",
    )


def load_suite(name: str, *, folder: Path | None = None, count: int | None = None, seed: int | None = None) -> Suite:
    """Read a suite, and make its tasks where they are made.

    Parameters
    ----------
    name
        As `find_suite` takes it.
    folder
        The code that holes are cut from; suites that are not made from code do not look at it.
    count, seed
        In place of the header's; of a suite with tasks of its own the first `count` are taken.

    Raises
    ------
    EvaluationError
        ``evaluation.suite``, ``evaluation.schema``, ``evaluation.line`` (file and line are named),
        ``evaluation.folder``, ``evaluation.human_eval``.
    """
    path = find_suite(name)
    header, tasks = read_suite(path)
    changed = {key: value for key, value in (("count", count), ("seed", seed)) if value is not None}
    header = header.model_copy(update=changed)
    if header.kind == "holes" and not tasks:
        tasks = _holes(path, header, folder)
    elif header.kind == "humaneval-infill":
        tasks = tuple(infill_tasks(header.count, header.seed))
    elif header.count is not None:
        tasks = tasks[: header.count]
    return Suite(header, tasks, _digest(header, tasks), str(path))


def read_suite(path: Path) -> tuple[Header, tuple[AnyTask, ...]]:
    """Read a suite's file; errors as in `load_suite`."""
    file = str(path)
    lines = list(_lines(path))
    if not lines:
        raise _line_error(file, 1, "the file is empty", "Its first line is a header: warmline schema suite")
    header = _header(file, *lines[0])
    kind = TASK_OF[header.kind]
    if header.kind in MADE - {"holes"} and len(lines) > 1:
        what = f"the tasks of a suite of the kind `{header.kind}` are made, and not written"
        raise _line_error(file, lines[1][0], what, "Remove the line")
    if len(lines) == 1 and header.kind not in MADE:
        raise _line_error(
            file, lines[0][0], "there is no task", "Add tasks, a line of JSON each: warmline schema suite"
        )
    if len(lines) - 1 > MAX_TASKS:
        raise _line_error(file, MAX_TASKS + 2, f"there are more than {MAX_TASKS} tasks", "Part the suite in two")
    tasks: list[AnyTask] = []
    seen: dict[str, int] = {}
    for number, text in lines[1:]:
        task = _checked(file, number, text, kind)
        if task.id in seen:
            what = f"the id `{task.id}` is that of line {seen[task.id]} too"
            raise _line_error(file, number, what, "Give each task an id of its own", "id")
        seen[task.id] = number
        tasks.append(cast(AnyTask, task))
    return header, tuple(tasks)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line that is not empty."""
    try:
        with open_regular(path) as fd, open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except ArtifactError as error:
        raise EvaluationError(error.message, code="evaluation.suite", file=str(path), remedy=error.remedy) from None
    if len(data) > MAX_BYTES:
        remedy = "Part the suite in two"
        raise EvaluationError("the suite is too large", code="evaluation.suite", file=str(path), remedy=remedy)
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            raise _line_error(str(path), number, "the line is not UTF-8", "Write the file as UTF-8") from None
        if text:
            yield number, text


def _header(file: str, number: int, text: str) -> Header:
    """Read the header; the version first, since whatever else another version says may mean something else."""
    try:
        raw: Any = json.loads(text)
    except (ValueError, RecursionError):
        raw = None
    version = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version != SCHEMA:
        newer = version > SCHEMA
        remedy = "Update Warmline" if newer else f"Write it anew as version {SCHEMA}: warmline schema suite"
        raise EvaluationError(
            f"line {number}: the suite is written in version {version} of the format, this Warmline reads {SCHEMA}",
            code="evaluation.schema",
            file=file,
            field="schema",
            remedy=remedy,
        )
    header = _model(file, number, text, Header)
    assert isinstance(header, Header)
    return header


def _checked(file: str, number: int, text: str, kind: type[Task]) -> Task:
    task = _model(file, number, text, kind)
    assert isinstance(task, Task)
    return task


def _model(file: str, number: int, text: str, model: type[Any]) -> Any:
    # `parse` wants a whole file's model, which a task is not: a line has no `$schema`.
    as_file = model if issubclass(model, FileModel) else type(model.__name__, (FileModel, model), {"__doc__": ""})
    try:
        return parse(text, as_file, file)
    except ConfigError as error:
        message = error.message.replace("at line 1, ", "at ")
        raise _line_error(file, number, message, error.remedy, error.field or "") from None


def _line_error(file: str, number: int, what: str, remedy: str, field: str = "") -> EvaluationError:
    where = f"line {number}" + (f": {field}" if field else "")
    return EvaluationError(what, code="evaluation.line", file=file, field=where, remedy=remedy)


def _holes(path: Path, header: Header, folder: Path | None) -> tuple[AnyTask, ...]:
    if folder is None:
        raise EvaluationError(
            f"the suite `{header.name}` is made from a folder of code, and none is named",
            code="evaluation.folder",
            file=str(path),
            field="--folder",
            remedy="Name one: --folder FOLDER",
        )
    cuts = cut_holes(sources_of(folder), header.count or _DEFAULT_COUNT, header.seed)
    return tuple(
        Hole(
            id=f"{number:04d}#L{cut.line + 1}",
            path=cut.source.name,
            before=cut.before,
            wanted=cut.wanted,
            after=cut.after,
        )
        for number, cut in enumerate(cuts)
    )


def _digest(header: Header, tasks: tuple[AnyTask, ...]) -> str:
    lines = [header.model_dump(mode="json", exclude={"json_schema", "description"}, by_alias=True)]
    lines += [task.model_dump(mode="json", exclude={"json_schema"}) for task in tasks]
    text = "\n".join(json.dumps(line, sort_keys=True, ensure_ascii=True) for line in lines)
    return bytes_digest(text.encode())
