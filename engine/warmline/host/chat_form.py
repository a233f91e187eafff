"""What a chat's request says of form: what the template is given, and the grammar that the reply is held to."""

from __future__ import annotations

from typing import Any, Final

from ..artifacts.bounded_json import BadJSON, parse_object
from ..backends.reply_grammar import reply_grammar
from ..errors import PromptError
from .wire import ChatRequest, ChatTurn

_MAX_DEPTH, _MAX_CONTAINERS = 32, 4096
_TOOLS: Final = "tools"


def template_message(turn: ChatTurn) -> dict[str, Any]:
    """Write a message as chat templates read it; raises PromptError ``prompt.messages``."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.call is not None:
        function = {"name": turn.call.name, "arguments": _parsed(turn.call.arguments, "messages")}
        message["tool_calls"] = [{"type": "function", "function": function}]
    return message


def template_variables(request: ChatRequest) -> dict[str, Any]:
    """Give what a template sees beside messages; raises PromptError ``prompt.messages``."""
    if request.tools is None:
        return {}
    return {_TOOLS: _parsed(f'{{"{_TOOLS}": {request.tools}}}', _TOOLS)[_TOOLS]}


def grammar_of(request: ChatRequest) -> str | None:
    """Write the grammar that a reply is held to, if it is; raises BackendError ``backend.schema``."""
    form = request.form
    if request.json_schema is None and not form.or_text_without:
        return None
    return reply_grammar(
        request.json_schema,
        before=form.before,
        after=form.after,
        or_text_without=form.or_text_without,
        reasoning=request.variant.profile.reasoning,
    )


def _parsed(text: str, field: str) -> dict[str, Any]:
    try:
        return parse_object(
            text.encode("utf-8", "replace"), max_depth=_MAX_DEPTH, max_containers=_MAX_CONTAINERS, floats=True
        )
    except BadJSON as error:
        raise PromptError(
            f"{field}: {error.message}",
            code="prompt.messages",
            field=field,
            remedy="Send JSON: a list of tools, and an object of arguments",
        ) from None
