"""A person at a room's document: types, asks, and an engine that speaks one piece at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types
from scripted import Room, inline_params
from warmline_server.lsp import sync
from warmline_server.lsp.inline_completion import inline_completion


class Steps(asyncio.Event):
    """A gate that lets so many waiters through."""

    def __init__(self) -> None:
        super().__init__()
        self._free = asyncio.Semaphore(0)

    async def wait(self) -> Any:
        await self._free.acquire()

    def let(self, count: int = 1) -> None:
        for _ in range(count):
            self._free.release()


class Typist:
    """Types at the end of a document."""

    def __init__(self, room: Room, text: str, name: str = "src/a.py", language: str = "python") -> None:
        self.room, self.text, self.uri, self.version = room, text, room.uri(name), 1
        item = types.TextDocumentItem(self.uri, language, 1, text)
        sync.did_open(room.ls, types.DidOpenTextDocumentParams(item))

    @property
    def end(self) -> types.Position:
        return types.Position(self.text.count("\n"), len(self.text) - self.text.rfind("\n") - 1)

    def type(self, text: str) -> None:
        self._change(types.Range(self.end, self.end), text)
        self.text += text

    def delete(self, count: int) -> None:
        line, character = self.end.line, self.end.character
        self._change(types.Range(types.Position(line, character - count), self.end), "")
        self.text = self.text[:-count]

    def _change(self, span: types.Range, text: str) -> None:
        self.version += 1
        identifier = types.VersionedTextDocumentIdentifier(version=self.version, uri=self.uri)
        change = types.TextDocumentContentChangePartial(span, text)
        sync.did_change(self.room.ls, types.DidChangeTextDocumentParams(identifier, [change]))

    def ask(self, **how: Any) -> asyncio.Task[Any]:
        """Ask at the end; the answer is the items or None."""
        params = inline_params(self.uri, self.end.line, self.end.character, **how)
        return asyncio.ensure_future(inline_completion(self.room.ls, params))

    async def ghost(self, **how: Any) -> str | None:
        """Ask, and give what the editor would show at the cursor."""
        items = await self.ask(**how)
        return self.shown(items[0]) if items else None

    def shown(self, item: types.InlineCompletionItem) -> str:
        assert item.range is not None
        assert item.range.start.line == item.range.end.line == self.end.line
        assert isinstance(item.insert_text, str)
        typed = item.range.end.character - item.range.start.character
        line = self.text[self.text.rfind("\n") + 1 :]
        assert item.insert_text[:typed] == line[item.range.start.character :]
        return item.insert_text[typed:]

    async def close(self) -> None:
        identifier = types.TextDocumentIdentifier(self.uri)
        sync.did_close(self.room.ls, types.DidCloseTextDocumentParams(identifier))
        await asyncio.sleep(0)


async def settle() -> None:
    """Let what is under way go as far as it can."""
    for _ in range(30):
        await asyncio.sleep(0)


async def speaking(room: Room, *, pieces: int = 1) -> tuple[Typist, Steps, asyncio.Task[Any]]:
    """Ask behind ``x = ``, and let the engine say so many pieces: who asks, what lets it go on, and the question."""
    room.engine.gate = steps = Steps()
    person = Typist(room, "x = ")
    question = person.ask()
    await room.engine.asked.wait()
    steps.let(pieces)
    await settle()
    return person, steps, question
