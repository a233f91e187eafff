"""Using one tool, as a turn that was permitted does."""

from __future__ import annotations

from typing import Any

from warmline_server.acp.tools.tool import Place


async def use(tool: Any, place: Place, **arguments: Any) -> str:
    """Prepare and perform an action, and give what the model is told."""

    async def report(_content: Any) -> None: ...

    action = await tool.prepare(arguments, place)
    result: str = (await action.perform(report)).text
    return result


def results(engine: Any) -> list[str]:
    """Give what the model was told of the tools that it used."""
    return [turn.content for turn in engine.chats[-1].messages if turn.content.startswith("Result of")]
