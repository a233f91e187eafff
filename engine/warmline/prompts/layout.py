"""Prompts within a context: a completion's window and fill-in-the-middle format, a chat's rendered template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..errors import PromptError
from .chat import ChatTemplate
from .fim import FimFormat, Tokenize, assemble
from .window import Window, fit, fit_texts

_SUFFIX_SHARE: Final = 4  # what follows the cursor gets a quarter of the room at most
_CONTEXT_SHARE: Final = 4  # and what comes from other documents another
_LEAST_ROOM: Final = 16


def completion_prompt(
    view: Window,
    fim: FimFormat,
    *,
    tokenize: Tokenize,
    bos: int | None,
    path: str | None,
    n_ctx: int,
    max_tokens: int,
    context: Sequence[str] = (),
    header: str = "",
) -> list[int]:
    """Return the prompt's tokens; they and `max_tokens` new ones fit into `n_ctx`.

    Texts from other documents come first, so that typing leaves them as they are, and after them what names this one.

    Parameters
    ----------
    context
        Texts from other documents, oldest first; where they exceed their share of the room, the oldest are left out,
        some of them at once.
    header
        Text that names the document, for formats that have no place for `path`.

    Raises
    ------
    PromptError
        ``prompt.room``: the context leaves no room for a prompt.
    """
    overhead = len(assemble(fim, (), (), tokenize=tokenize, bos=bos, path=path))
    others: list[int] = []
    room = n_ctx - max_tokens - overhead
    if context or header:
        named = "" if fim.file_header is not None and path is not None else header
        others = [*fit_texts(context, tokenize, room // _CONTEXT_SHARE), *(tokenize(named) if named else [])]
        room -= len(others)
    if room < _LEAST_ROOM:
        raise PromptError(
            f"a context of {n_ctx} tokens leaves no room for a prompt beside {max_tokens} new tokens",
            code="prompt.room",
            field="profile.n_ctx",
            remedy="Raise n_ctx or lower max_tokens",
        )
    suffix_room = 0 if fim.order == "prefix-only" else room // _SUFFIX_SHARE
    fitted = fit(view, tokenize, room - suffix_room, suffix_room)
    prompt = assemble(fim, fitted.prefix_ids, fitted.suffix_ids, tokenize=tokenize, bos=bos, path=path, before=others)
    # An empty file under a format without sentinels gives no token to go on from: a line end says the same.
    return prompt or tokenize("\n")


def chat_prompt(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, Any]],
    *,
    tokenize_special: Tokenize,
    special_texts: Iterable[str],
    bos: int | None,
    bos_text: str,
    eos_text: str,
    n_ctx: int,
    variables: Mapping[str, Any] | None = None,
) -> list[int]:
    """Return a conversation's tokens, up to where the assistant's next message begins.

    The template's sentinels become tokens; the same texts inside a message stay text. BOS stands there once, whether
    the policy or the template asks for it.

    Raises
    ------
    PromptError
        ``prompt.template_*``; ``prompt.room`` when the conversation leaves no room for an answer.
    """
    pieces = template.generate_pieces(
        messages, special_texts, bos_token=bos_text, eos_token=eos_text, variables=variables
    )
    prompt = [token for piece in pieces for token in tokenize_special(piece)]
    if bos is not None and prompt[:1] != [bos]:
        prompt.insert(0, bos)
    if len(prompt) > n_ctx - _LEAST_ROOM:
        raise PromptError(
            f"the conversation has {len(prompt)} tokens, and the context {n_ctx}",
            code="prompt.room",
            field="profile.n_ctx",
            remedy="Begin a new conversation, or raise n_ctx",
        )
    return prompt
