"""What a prompt is made of, as text for the model: within limits, and with a note of what was cut or left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from ..context.secrets import is_secret
from ..lsp import uris
from .edge import InvalidParams
from .tools.files import inside, read_text
from .tools.tool import Place, ToolError

MAX_TEXT: Final = 1 << 20  # characters: far more than any context holds
MAX_RESOURCE: Final = 32_000
MAX_RESOURCES: Final = 256_000  # of all together
_MAX_NAME: Final = 500
_SYMBOL: Final = re.compile("(?<=/symbol)/[^/]*$")


@dataclass(slots=True)
class Given:
    """A prompt for the model, and what the person is told of it.

    Attributes
    ----------
    room
        How many more characters of files and other resources it takes.
    left_out
        How many of them came when it took no more.
    """

    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    room: int = MAX_RESOURCES
    left_out: int = 0

    @property
    def text(self) -> str:
        """All of it."""
        return "\n\n".join(self.parts)


def refuse_unreadable(blocks: Sequence[Any]) -> None:
    """Raise `InvalidParams` for a prompt that cannot be understood: pictures, sounds, nothing at all, or too much."""
    for block in blocks:
        if isinstance(block, (ImageContentBlock, AudioContentBlock)):
            raise InvalidParams(f"{block.type} is not understood: no variant sees or hears, and none is advertised to")
    texts = [block.text for block in blocks if isinstance(block, TextContentBlock)]
    if sum(map(len, texts)) > MAX_TEXT:
        raise InvalidParams(f"the prompt is longer than {MAX_TEXT} characters")
    if not any(text.strip() for text in texts) and len(texts) == len(blocks):
        raise InvalidParams("the prompt is empty")


async def understood(blocks: Sequence[Any], place: Place) -> Given:
    """Make text of a prompt's blocks; what a link names is read as `read_file` reads it."""
    given = Given()
    for block in blocks:
        if isinstance(block, TextContentBlock):
            given.parts.append(block.text)
        elif isinstance(block, ResourceContentBlock):
            await _link(block.uri, given, place)
        elif isinstance(block, EmbeddedResourceContentBlock):
            _embedded(block.resource, given, place)
    if given.left_out:
        given.notes.append(
            f"The files of this message are long: the model sees {MAX_RESOURCES} characters of them, and nothing of "
            f"the last {given.left_out}."
        )
    return given


async def _link(uri: str, given: Given, place: Place) -> None:
    path = uris.to_path(uri)
    name = uri[:_MAX_NAME]
    if path is None:
        given.parts.append(f"[The user refers to {name}, which is not read.]")
        given.notes.append(f"{name} is no file and was not read.")
        return
    if not given.room:
        _leave_out(name, given)
        return
    try:
        text = await read_text(place, inside(place, str(path)))
    except ToolError as error:
        given.parts.append(f"[The user refers to {name}, which cannot be read.]")
        given.notes.append(f"{name} was not read: {error}.")
        return
    _add(name, text, given)


def _embedded(resource: Any, given: Given, place: Place) -> None:
    name = resource.uri[:_MAX_NAME]
    path = uris.to_path(resource.uri)
    if _names_secret(resource.uri) or (path is not None and place.roots.secret(path)):
        given.notes.append(f"{name} may hold secrets and was left out.")
    elif isinstance(resource, TextResourceContents):
        _add(name, resource.text, given)
    else:
        given.notes.append(f"{name} is no text and was left out.")


def _names_secret(uri: str) -> bool:
    """Tell whether a URI of any scheme names a file that may hold secrets, by its path or by a path in its query.

    What it names inside of a file (a fragment, or a symbol where the query has the file) is no name of a file.
    """
    whole, _, query = uri.partition("#")[0].partition("?")
    values = [value for _, value in parse_qsl(query) if "/" in value or value.startswith(".")]
    named = [*values, *re.split("[:;]", unquote(_SYMBOL.sub("", whole)))]
    return any(is_secret(name.replace("\\", "/")) for name in named)


def _add(name: str, text: str, given: Given) -> None:
    if not given.room:
        _leave_out(name, given)
        return
    most = min(MAX_RESOURCE, given.room)
    if len(text) > most:
        given.notes.append(f"{name} is long: the model sees its first {most} of {len(text)} characters.")
        text = text[:most]
    given.room -= len(text)
    given.parts.append(f"{name}:\n{text}")


def _leave_out(name: str, given: Given) -> None:
    given.left_out += 1
    given.parts.append(f"[The user refers to {name}, which is left out.]")
