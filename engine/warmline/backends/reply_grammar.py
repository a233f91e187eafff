"""The grammar of a reply: JSON under a schema with what a model's format puts around it, or text, after a thought.

Rules are GBNF, which both libraries read. A text up to or without a mark is written as the states of a search for the
mark (Knuth, Morris and Pratt): state *n* has seen the mark's first *n* characters.
"""

from __future__ import annotations

import re
from typing import Final

from ..variant import Reasoning
from .json_schema import grammar, refused

# A few at most: a small model writes blanks without end where they are allowed.
_BLANKS: Final = "blanks ::= " + r"([ \t\r\n] " * 4 + ")?" * 4 + "\n"
_ROOT: Final = re.compile(r"\broot\b")
_LITERAL: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_CLASS: Final = {**_LITERAL, "]": "\\]", "[": "\\[", "^": "\\x5E", "-": "\\x2D"}


def reply_grammar(
    json_schema: str | None,
    *,
    before: str = "",
    after: str = "",
    or_text_without: str = "",
    reasoning: Reasoning | None = None,
) -> str:
    """Write the grammar of a reply.

    Parameters
    ----------
    json_schema
        What the JSON has to be; None where there is to be none, and the reply is a text.
    before, after
        What stands around the JSON, to the letter.
    or_text_without
        If given, the reply may also be a text that is not blank and nowhere has this mark.
    reasoning
        How thoughts are marked that may stand before all of it, or must where the prompt has opened one.

    Raises
    ------
    BackendError
        ``backend.schema``.
    """
    lines, choices = [], []
    if json_schema is not None:
        whole, *others = grammar(json_schema).partition("root ::=")
        lines.append((whole + "reply-json ::=" + others[1]).rstrip("\n"))
        if _ROOT.search(lines[0]):
            raise refused("the whole schema cannot refer to itself")
        choices.append(" ".join(part for part in (_literal(before), "reply-json", _literal(after)) if part))
    if or_text_without:
        choices.append("reply-text")
        lines += [
            f"reply-text ::= blanks {_first(or_text_without)}",
            *_search("text", or_text_without, ends=False),
        ]
    root = "reply"
    if reasoning is not None:
        begins = "" if reasoning.prompted else f"{_literal(reasoning.open)} "
        thought = f"{begins}thought-0 blanks"
        root = f"{thought} reply" if reasoning.prompted else f"({thought})? reply"
        lines += _search("thought", reasoning.close, ends=True)
    return _BLANKS + "\n".join([*lines, f"reply ::= {' | '.join(choices)}", f"root ::= {root}"]) + "\n"


def _first(mark: str) -> str:
    """Write what begins a text without a mark: a character that is not blank, then whatever the search lets through."""
    other = f"[^ \\t\\r\\n{_class(mark[0])}] text-0"
    return f"({other} | {_literal(mark[0])} text-1)" if len(mark) > 1 else f"({other})"


def _search(name: str, mark: str, *, ends: bool) -> list[str]:
    """Write a rule for each state of the search for a mark: the text ends with the mark, or else may never have it."""
    signs = sorted(set(mark))
    rules = []
    for state in range(len(mark)):
        choices = [] if ends else ['""']
        for sign in signs:
            seen = _seen(mark, mark[:state] + sign)
            if seen < len(mark):
                choices.append(f"{_literal(sign)} {name}-{seen}")
            elif ends:
                choices.append(_literal(sign))
        choices.append(f"[^{''.join(map(_class, signs))}] {name}-0")
        rules.append(f"{name}-{state} ::= {' | '.join(choices)}")
    return rules


def _seen(mark: str, text: str) -> int:
    """Tell how much of the mark's beginning a text ends with."""
    return next(size for size in range(min(len(mark), len(text)), -1, -1) if text.endswith(mark[:size]))


def _literal(text: str) -> str:
    return f'"{"".join(_LITERAL.get(sign, sign) for sign in text)}"' if text else ""


def _class(sign: str) -> str:
    return _CLASS.get(sign, sign)
