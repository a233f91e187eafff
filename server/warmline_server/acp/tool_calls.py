"""One tool call: shown, permitted, done, and told to the model, whatever becomes of it."""

from __future__ import annotations

import uuid
from typing import Any

from . import updates
from .live import Live
from .permissions import Refused, refuse_forbidden
from .plans import ToolCall
from .tools.tool import Action, Result, ToolError
from .transcript import Planned, Used

Json = dict[str, Any]
_STATUSES = ("pending", "in_progress", "completed")
_AGAIN = "This very call was made before, and nothing has changed since: it is not made again."


async def use_tool(live: Live, plan: ToolCall, decoded: Json) -> bool:
    """Use a tool that there is; what it gives, or why it gives nothing, is added to the session. Tell whether it did.

    Parameters
    ----------
    decoded
        How the model asked for it: fields of the entry.

    Raises
    ------
    Withdrawn, asyncio.CancelledError
        The turn was cancelled; the call is shown as failed and kept.
    """
    call: Json = {"toolCallId": _new_id(), "title": plan.name, "kind": "other"}
    call |= {"status": "failed", "rawInput": plan.arguments}  # until it has not
    tool = next(each for each in live.tools if each.name == plan.name)
    told = "[cancelled by the user]"
    try:
        action = await tool.prepare(plan.arguments, live.place)
        call |= _shown(action)
        await live.tell({"sessionUpdate": "tool_call", **call, "status": "pending"})
        result = await _permitted(live, action, call)
        told = result.text
        call |= {"status": "completed", "content": result.content}
    except (ToolError, Refused, OSError) as error:
        told = f"Error: {error}"
        call["content"] = [*call.get("content", ()), updates.text_content(told)]
    finally:
        live.record.add(Used(**decoded, result=f"Result of {plan.name}:\n{told}", call=call))
        kind = "tool_call_update" if "locations" in call else "tool_call"
        await live.tell({"sessionUpdate": kind, **call})
    return bool(call["status"] == "completed")


async def refuse_again(live: Live, plan: ToolCall, decoded: Json, result: str) -> None:
    """Show a call that is not done since it was done before; the model is told its result of then.

    A small model that is told off instead gives the telling-off as its answer.
    """
    call: Json = {"toolCallId": _new_id(), "title": plan.name, "kind": "other", "status": "failed"}
    call |= {"rawInput": plan.arguments, "content": [updates.text_content(_AGAIN)]}
    live.record.add(Used(**decoded, result=result, call=call))
    await live.tell({"sessionUpdate": "tool_call", **call})


async def show_plan(live: Live, plan: ToolCall, decoded: Json) -> None:
    """Show the model's plan to the person."""
    given = plan.arguments.get("entries")
    entries = [
        {"content": str(each.get("content", "")), "priority": "medium", "status": _status(each.get("status"))}
        for each in (given if isinstance(given, list) else ())
        if isinstance(each, dict)
    ]
    live.record.add(Planned(**decoded, result="The plan is shown. Go on with its next step.", entries=entries))
    await live.tell(updates.plan(entries))


async def _permitted(live: Live, action: Action, call: Json) -> Result:
    shown = {**call, "status": "pending"}
    await live.permissions.check(action, live.record.head.mode, live.client, live.id, shown)
    refuse_forbidden(action, live.record.head.mode)  # it may have changed while the person was asked
    await live.tell({"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": "in_progress"})

    async def report(content: list[Json]) -> None:
        call["content"] = content
        await live.tell({"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "content": content})

    return await action.perform(report)


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:16]}"


def _shown(action: Action) -> Json:
    locations = [{"path": str(path)} for path in action.locations]
    return {"title": action.title, "kind": action.kind, "content": action.content, "locations": locations}


def _status(value: Any) -> str:
    return value if value in _STATUSES else "pending"
