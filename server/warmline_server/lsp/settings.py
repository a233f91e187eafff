"""What a person sets in the editor, section `warmline`: one model, behind the README's table, the schema and VS Code's.

Names are written in camelCase in editors (``warmline.chat.maxTokens``); snake_case is taken as well. A setting that
cannot be used costs only itself: the rest is used, and the person is told once. One that keeps files from the model
does not fall back to its default then, which keeps back none: until it can be read, no file can be judged by it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from warmline.errors import ConfigError

from ..setting_fields import number
from ..suggest.settings import SuggestSettings
from .pattern_lists import usable

SECTION: Final = "warmline"
# Settings of the same section that are the editor extension's own: how the server is started, and its trace.
_NOT_OURS: Final = frozenset({"trace", "server"})
_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_MAX_PROBLEMS: Final = 64


class _Group(BaseModel):
    """Base of the groups: immutable, unknown names refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChatSettings(_Group):
    """The chat commands."""

    max_tokens: int = number(
        512, 1, 65536, "tokens", "Most tokens of one answer.", "about a screenful, and seconds rather than minutes"
    )
    edit_tokens: int = number(
        1024,
        1,
        65536,
        "tokens",
        "Most tokens of a text that `edit` or `fix` writes.",
        "a function of some 100 lines; a text cut short is refused",
    )
    history_messages: int = number(
        40, 2, 1000, "messages", "Most messages of a conversation that are kept.", "20 questions and their answers"
    )
    history_characters: int = number(
        24000,
        1000,
        1000000,
        "characters",
        "Most characters of a conversation that the model is given; the oldest messages go first, and you are told.",
        "some 8,000 tokens; a smaller context of the variant bounds it further",
    )
    context_lines: int = number(
        120, 0, 4000, "lines", "Lines of the file around the selection that go along.", "a function and its neighbours"
    )


class TrustSettings(_Group):
    """Approvals."""

    ask: bool = Field(default=True, description="Ask when a workspace brings files that you have not approved yet.")


class CodeLensSettings(_Group):
    """The lines above workspace and variant files' content."""

    enabled: bool = Field(default=True, description="Show above a variant what it is made of and who vouches for it.")


class ProgressSettings(_Group):
    """Progress reports."""

    enabled: bool = Field(default=True, description="Show progress while a model is loaded.")


class StatsSettings(_Group):
    """`warmline stats`."""

    enabled: bool = Field(
        default=True,
        description="Count on this machine what was shown and accepted of each variant; numbers only, sent nowhere.",
    )


class EditorSettings(_Group):
    """Settings of the language server, as an editor has them in its section `warmline`."""

    suggest: SuggestSettings = SuggestSettings()
    chat: ChatSettings = ChatSettings()
    trust: TrustSettings = TrustSettings()
    code_lens: CodeLensSettings = CodeLensSettings()
    progress: ProgressSettings = ProgressSettings()
    stats: StatsSettings = StatsSettings()


def camel(name: str) -> str:
    """Write a field's name as editors do: ``max_tokens`` as ``maxTokens``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def read_settings(raw: object) -> tuple[EditorSettings, list[ConfigError]]:
    """Read what an editor sends; what is wrong with it comes beside the settings, which go without it.

    Parameters
    ----------
    raw
        The section's value, or settings with that section in them; anything else but null is one error.

    Returns
    -------
    tuple
        The settings, and a ``config.field`` or ``config.unknown_field`` for each that cannot be used, or for each
        entry of a list.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get(SECTION), Mapping):
        raw = raw[SECTION]
    if raw is None:
        return EditorSettings(), []
    if not isinstance(raw, Mapping):
        return EditorSettings(), [_error((), "the settings are no object", "config.field", "Write an object")]
    values = {key: value for key, value in _snake(raw).items() if key not in _NOT_OURS}
    problems = [_entry(where) for where in _without_wrong_entries(values)][:_MAX_PROBLEMS]
    while True:
        try:
            return EditorSettings.model_validate(values), problems
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
        gone = [problem for problem in found if _removed(values, problem["loc"])]
        problems += [_problem(problem) for problem in gone[: _MAX_PROBLEMS - len(problems)]]
        if not gone:  # a rule about all of them at once
            return EditorSettings(), [*problems, _problem(found[0])]


def _problem(problem: Any) -> ConfigError:
    where = tuple(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        group = _group(where[:-1])
        names = [camel(name) for name in group.model_fields] if group else []
        near = difflib.get_close_matches(camel(where[-1]), names, n=1)
        remedy = f"Did you mean `{near[0]}`?" if near else f"Settings here: {', '.join(names)}"
        return _error(where, "there is no such setting", "config.unknown_field", remedy)
    message = problem["msg"].removeprefix("Value error, ")
    kept_back = len(where) > 1 and where[1] in _stand_ins(where[0])
    meanwhile = "until then it keeps all files back that it can" if kept_back else "its default is used"
    return _error(where, message[0].lower() + message[1:], "config.field", f"Correct the value; {meanwhile}")


def _entry(where: tuple[str, ...]) -> ConfigError:
    return _error(where, "this is no text", "config.field", "Correct the value; the list's other ones are used")


def _error(where: tuple[str, ...], message: str, code: str, remedy: str) -> ConfigError:
    return ConfigError(message, code=code, field=".".join([SECTION, *map(camel, where)]), remedy=remedy)


def _group(where: tuple[str, ...]) -> type[BaseModel] | None:
    here: type[BaseModel] = EditorSettings
    for part in where:
        info = here.model_fields.get(part)
        inner = _as_group(info.annotation) if info else None
        if inner is None:
            return None
        here = inner
    return here


def _as_group(annotation: object) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _stand_ins(group: str) -> Mapping[str, Any]:
    """Give what stands in for settings of a group for which their defaults would let out what they keep back."""
    return SuggestSettings.KEEPING_ALL_BACK if group == "suggest" else {}


def _without_wrong_entries(values: dict[str, Any]) -> list[tuple[str, ...]]:
    """Take out of lists of texts what is none, where texts are left; tell where it was."""
    wrong: list[tuple[str, ...]] = []
    for name, group in values.items():
        model = _group((name,))
        for key, value in list(group.items()) if model and isinstance(group, dict) else ():
            info = model.model_fields.get(key) if model else None
            if info is None or info.annotation != tuple[str, ...]:
                continue
            if value is None:  # how editors write a setting that is not set
                del group[key]
                continue
            group[key], places = usable(value)
            wrong += [(name, key, str(place)) for place in places]
    return wrong


def _removed(values: dict[str, Any], location: tuple[int | str, ...]) -> bool:
    """Take out what is wrong; tell whether it was still there (two problems may be about one value)."""
    # A value inside a list or a map of a setting costs the setting, which has a default; a group is never at fault.
    parent: dict[str, Any] = values
    here: Any = values
    for depth, part in enumerate(location):
        inner = here.get(part) if isinstance(here, dict) else None
        group = _group(tuple(map(str, location[: depth + 1])))
        if group is None or not isinstance(inner, dict):
            stand_ins = _stand_ins(str(location[0])) if depth else {}
            if isinstance(here, dict) and part in stand_ins:
                return _put(here, str(part), stand_ins[str(part)])
            return here.pop(part, here) is not here if isinstance(here, dict) else False
        parent, here = here, inner
    # A rule about the group as a whole: which of its settings is at fault is not known.
    return bool(location) and parent.pop(str(location[-1]), None) is not None


def _put(group: dict[str, Any], name: str, value: object) -> bool:
    before, group[name] = group.get(name), value
    return before is not value


def _snake(raw: Mapping[Any, Any], model: type[BaseModel] | None = EditorSettings) -> dict[str, Any]:
    """Write the names of settings as fields; what a setting itself holds is left as it is."""
    result: dict[str, Any] = {}
    for key, value in raw.items():
        name = _HUMP.sub(lambda match: "_" + match[1].lower(), str(key))
        info = model.model_fields.get(name) if model else None
        group = _as_group(info.annotation) if info else None
        result[name] = _snake(value, group) if group and isinstance(value, Mapping) else value
    return result


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the section, with names as editors write them."""
    from warmline.schemas import as_schema  # with all kinds of files, which a server does not need

    def described(model: type[BaseModel]) -> dict[str, Any]:
        raw = model.model_json_schema()
        properties = {}
        for name, info in model.model_fields.items():
            group = _as_group(info.annotation)
            properties[camel(name)] = described(group) if group else raw["properties"][name]
        about = {"description": model.__doc__} if model.__doc__ else {}
        return {"type": "object", **about, "properties": properties, "additionalProperties": False}

    return as_schema("warmline: settings in an editor", described(EditorSettings))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as people read it: its dotted name, its JSON Schema, its unit and the reason for its default."""

    name: str
    schema: dict[str, Any]

    @property
    def about(self) -> str:
        """What it does, and where its default is a number, why that one."""
        reason = self.schema.get("reason")
        return f"{self.schema['description']}{f' Default: {reason}.' if reason else ''}"


def all_settings() -> Iterator[Setting]:
    """Yield every setting, in order."""
    pending = [(SECTION, schema())]
    while pending:
        name, found = pending.pop(0)
        inner = found.get("properties")
        if inner is None:
            yield Setting(name, found)
        else:
            pending[:0] = [(f"{name}.{key}", each) for key, each in inner.items()]
