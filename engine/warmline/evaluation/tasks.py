"""What a suite holds: a header, and tasks of one kind, one line of JSON each."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from ..filemodel import FileModel, Model, Name
from ..variant import Claim

SCHEMA: Final = 1
MAX_TASKS: Final = 10_000

Kind = Literal["holes", "humaneval-infill", "style", "smoke", "tools", "reasoning"]
Metric = Literal[
    "first_line_exact", "edit_similarity", "kept_rate", "shown", "pass_at_1", "format_validity", "latency_ms"
]

#: Which claim a suite of a kind speaks for.
CLAIM_OF: Final[dict[Kind, Claim]] = {
    "holes": "completion",
    "humaneval-infill": "completion",
    "style": "completion",
    "smoke": "chat",
    "tools": "tools",
    "reasoning": "reasoning",
}
#: Kinds whose tasks are made when the suite is read: from a folder of code, or from an installed package.
MADE: Final[frozenset[Kind]] = frozenset({"holes", "humaneval-infill"})

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/#-]{0,199}$")]
Text = Annotated[str, Field(max_length=200_000)]
Short = Annotated[str, Field(max_length=1000)]
Words = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(max_length=50)]


class Threshold(Model):
    """What a figure must reach for a certificate: exactly one of the three limits."""

    metric: Metric
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="The figure is not below this."
    )
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="The figure is not above this."
    )
    over_base: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None,
        description="The whole interval of the paired difference to the base lies above this: 0 wants the variant to "
        "be better, a negative number not to be worse by as much. A variant without adapters is its base, and is not "
        "held to it.",
    )

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if sum(limit is not None for limit in (self.at_least, self.at_most, self.over_base)) != 1:
            raise ValueError("a threshold has exactly one of `at_least`, `at_most` and `over_base`")
        return self

    def words(self) -> str:
        """Say what it asks for."""
        if self.over_base is not None:
            return f"{self.metric} over the base by more than {self.over_base:g}"
        if self.at_least is not None:
            return f"{self.metric} at least {self.at_least:g}"
        return f"{self.metric} at most {self.at_most:g}"


class Header(FileModel):
    """A suite's first line."""

    schema_version: Literal[1] = Field(alias="schema", description="Version of the format.")
    name: Name
    kind: Kind = Field(description="What the tasks are, and how answers are scored.")
    description: Short = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(default=1, description="Of holes and of intervals.")
    count: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = Field(
        default=None, description="How many tasks are made, in suites whose tasks are made (`holes`)."
    )
    lines_before: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=32, description="Lines before the cursor that the model gets."
    )
    lines_after: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=8, description="Lines behind the cursor that the model gets."
    )
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = Field(default=32, description="Most tokens of one answer.")
    thresholds: Annotated[tuple[Threshold, ...], Field(max_length=50)] = Field(
        default=(), description="What a certificate asks for."
    )


class Expect(Model):
    """What must hold of an answer, white space around it left out."""

    contains: Words = Field(default=(), description="Each of these is in it, whatever the case.")
    any_of: Words = Field(default=(), description="One of these is in it, whatever the case.")
    absent: Words = Field(default=(), description="None of these is in it, whatever the case.")
    starts_with: Annotated[str, Field(max_length=1000)] = Field(default="", description="It begins with exactly this.")
    max_chars: Annotated[int, Field(ge=1)] | None = Field(default=None, description="It is not longer than this.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.contains or self.any_of or self.absent or self.starts_with or self.max_chars):
            raise ValueError("an expectation says what is to hold")
        return self

    def holds(self, answer: str) -> bool:
        """Tell whether an answer is as expected; no answer never is."""
        text, folded = answer.strip(), answer.casefold()
        return (
            bool(text)
            and all(each.casefold() in folded for each in self.contains)
            and (not self.any_of or any(each.casefold() in folded for each in self.any_of))
            and not any(each.casefold() in folded for each in self.absent)
            and text.startswith(self.starts_with)
            and (self.max_chars is None or len(text) <= self.max_chars)
        )


class Task(Model):
    """What all tasks have."""

    id: Id = Field(description="Names the task in reports; unlike all others of the suite.")


class Hole(Task):
    """A cursor in code, and what stood there."""

    path: Short = Field(default="code.py", description="Name of the file; its ending tells the language.")
    before: Text = Field(description="The file up to the cursor.")
    wanted: Annotated[str, Field(min_length=1, max_length=20_000)] = Field(description="What stood at the cursor.")
    after: Text = Field(default="", description="The file behind it.")


class Infill(Hole):
    """A hole in a solution that has tests: those of an installed package, never of a suite's file."""

    entry_point: Short
    reference: Text
    test: Text


class Style(Task):
    """A team's own snippet: `before` is what is typed, `after` the snippet as the team writes it."""

    path: Short = Field(default="code.py", description="Name of the file; its ending tells the language.")
    context: Text = Field(default="", description="The file above the snippet.")
    before: Annotated[str, Field(min_length=1, max_length=20_000)]
    after: Annotated[str, Field(min_length=1, max_length=20_000)] = Field(description="Begins with `before`.")

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if not self.after.startswith(self.before) or len(self.after) == len(self.before):
            raise ValueError("`after` has to begin with `before`, and to go on")
        return self

    @property
    def hole(self) -> Hole:
        """The same as a hole at the end of what is typed."""
        wanted = self.after[len(self.before) :]
        return Hole(id=self.id, path=self.path, before=self.context + self.before, wanted=wanted)


class Smoke(Task):
    """Something said, or code to go on with, and what must hold of the answer."""

    say: Text = Field(default="", description="A message to the variant.")
    complete: Text = Field(default="", description="In its place: code up to a cursor.")
    path: Short = Field(default="code.py", description="Name of the file that `complete` is in.")
    expect: Expect

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if bool(self.say) == bool(self.complete):
            raise ValueError("a task has either `say` or `complete`")
        return self


class ToolSpec(Model):
    """A tool that the model may call."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
    description: Short
    parameters: dict[str, Any] = Field(description="JSON Schema of its arguments: an object.")


class Call(Model):
    """The call that is right; `arguments` are those that must be there with this very value."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolUse(Task):
    """Something said to a variant with tools: it has to call the right one, or none (`expect` null) and answer."""

    say: Annotated[str, Field(min_length=1, max_length=20_000)]
    tools: Annotated[tuple[ToolSpec, ...], Field(min_length=1, max_length=20)]
    expect: Call | None

    @model_validator(mode="after")
    def _known_tool(self) -> Self:
        names = [tool.name for tool in self.tools]
        if len(set(names)) != len(names):
            raise ValueError("two tools have the same name")
        if self.expect is not None and self.expect.tool not in names:
            raise ValueError(f"`{self.expect.tool}` is none of the task's tools")
        return self


class Reason(Task):
    """A question that needs thought: the thought is apart from the answer, and the answer as expected."""

    say: Annotated[str, Field(min_length=1, max_length=20_000)]
    expect: Expect


AnyTask = Hole | Infill | Style | Smoke | ToolUse | Reason
TASK_OF: Final[dict[Kind, type[Task]]] = {
    "holes": Hole,
    "humaneval-infill": Infill,
    "style": Style,
    "smoke": Smoke,
    "tools": ToolUse,
    "reasoning": Reason,
}


def line_schema() -> dict[str, Any]:
    """Return the JSON Schema of any line of a suite: its header, or a task of a kind that is written."""
    lines: TypeAdapter[Any] = TypeAdapter(Header | Hole | Style | Smoke | ToolUse | Reason)
    return lines.json_schema(by_alias=True, mode="validation")
