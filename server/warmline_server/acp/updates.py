"""What the agent tells of a session while it works, in the protocol's form."""

from __future__ import annotations

from typing import Any

from warmline.host.wire import Started, VariantStatus

Json = dict[str, Any]


def provenance(status: VariantStatus, started: Started | None = None) -> Json:
    """Give the ``_meta`` of a message: which exact variant wrote it, what that is made of, and how warm its KV was."""
    picked = {"variant", "identity", "base", "adapters", "backend", "context"}
    record = status.model_dump(mode="json", include=picked)
    if started is not None:
        record |= {
            "identity": started.identity,
            "prompt_tokens": started.prompt_tokens,
            "reused_tokens": started.reused_tokens,
            "reused_estimated": started.reused_estimated,
            "reason": started.reason,
        }
    return {"warmline": record}


def short_provenance(variant: str, identity: str) -> Json:
    """Give the ``_meta`` of a message's further pieces: the whole record stands in its first one."""
    return {"warmline": {"variant": variant, "identity": identity}}


def chunk(kind: str, text: str, message_id: str | None = None, meta: Json | None = None) -> Json:
    """Give a piece of text; `kind` is ``agent_message``, ``agent_thought`` or ``user_message``."""
    update: Json = {"sessionUpdate": f"{kind}_chunk", "content": {"type": "text", "text": text}}
    if message_id is not None:
        update["messageId"] = message_id
    if meta is not None:
        update["_meta"] = meta
    return update


def usage(used: int, size: int) -> Json:
    """Give how many tokens of the engine's real context are used."""
    return {"sessionUpdate": "usage_update", "used": used, "size": size}


def config_options(options: list[Json]) -> Json:
    """Give the full list of options, after one changed."""
    return {"sessionUpdate": "config_option_update", "configOptions": options}


def current_mode(mode: str) -> Json:
    """Give the mode, after it changed."""
    return {"sessionUpdate": "current_mode_update", "currentModeId": mode}


def commands(available: list[Json]) -> Json:
    """Give the commands that a prompt may begin with."""
    return {"sessionUpdate": "available_commands_update", "availableCommands": available}


def session_info(title: str, updated_at: str) -> Json:
    """Give a session's title and when it was last worked in."""
    return {"sessionUpdate": "session_info_update", "title": title, "updatedAt": updated_at}


def plan(entries: list[Json]) -> Json:
    """Give the whole plan."""
    return {"sessionUpdate": "plan", "entries": entries}


def text_content(text: str) -> Json:
    """Give text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def diff_content(path: str, old: str | None, new: str) -> Json:
    """Give a change of a file as content of a tool call; `old` is None for a file that is new."""
    content: Json = {"type": "diff", "path": path, "newText": new}
    return content if old is None else {**content, "oldText": old}
