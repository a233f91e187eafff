"""A completion's prompt within a context: window, budget, fill-in-the-middle format, tokens."""

from __future__ import annotations

from typing import Final

from ..errors import PromptError
from .fim import FimFormat, Tokenize, assemble
from .window import Window, fit

_SUFFIX_SHARE: Final = 4  # what follows the cursor gets a quarter of the room at most
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
) -> list[int]:
    """Return the prompt's tokens; they and `max_tokens` new ones fit into `n_ctx`.

    Raises
    ------
    PromptError
        ``prompt.room``: the context leaves no room for a prompt.
    """
    overhead = len(assemble(fim, (), (), tokenize=tokenize, bos=bos, path=path))
    room = n_ctx - max_tokens - overhead
    if room < _LEAST_ROOM:
        raise PromptError(
            f"a context of {n_ctx} tokens leaves no room for a prompt beside {max_tokens} new tokens",
            code="prompt.room",
            field="profile.n_ctx",
            remedy="Raise n_ctx or lower max_tokens",
        )
    suffix_room = 0 if fim.order == "prefix-only" else room // _SUFFIX_SHARE
    fitted = fit(view, tokenize, room - suffix_room, suffix_room)
    prompt = assemble(fim, fitted.prefix_ids, fitted.suffix_ids, tokenize=tokenize, bos=bos, path=path)
    # An empty file under a format without sentinels gives no token to go on from: a line end says the same.
    return prompt or tokenize("\n")
