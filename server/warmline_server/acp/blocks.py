"""What a prompt is made of, as text for the model: within limits, and with a note of what was cut or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from ..lsp import uris
from .edge import InvalidParams
from .tools.files import inside, read_text
from .tools.tool import Place, ToolError

MAX_TEXT: Final = 1 << 20  # characters: far more than any context holds
MAX_RESOURCE: Final = 32_000
_MAX_NAME: Final = 500


@dataclass(slots=True)
class Given:
    """A prompt for the model, and what the person is told of it."""

    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
    return given


async def _link(uri: str, given: Given, place: Place) -> None:
    path = uris.to_path(uri)
    name = uri[:_MAX_NAME]
    if path is None:
        given.parts.append(f"[The user refers to {name}, which is not read.]")
        given.notes.append(f"{name} is no file and was not read.")
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
    if path is not None and place.roots.secret(path):
        given.notes.append(f"{name} may hold secrets and was left out.")
    elif isinstance(resource, TextResourceContents):
        _add(name, resource.text, given)
    else:
        given.notes.append(f"{name} is no text and was left out.")


def _add(name: str, text: str, given: Given) -> None:
    if len(text) > MAX_RESOURCE:
        given.notes.append(f"{name} is long: the model sees its first {MAX_RESOURCE} of {len(text)} characters.")
        text = text[:MAX_RESOURCE]
    given.parts.append(f"{name}:\n{text}")
