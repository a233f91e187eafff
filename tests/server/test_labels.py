"""What people read in place of codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from warmline.host.wire import Outcome
from warmline_server import completion, labels
from warmline_server.lsp import refusals, variants
from warmline_server.suggest import confidence, pipeline

_CUT = re.compile(r'Cut\(.*, (?:"([a-z-]+)"|"([a-z-]+)" if .* else "([a-z-]+)")\)')


def _codes() -> set[str]:
    """Every reason that the code names: of the rules that cut, of what forbids, of how a decode ends."""
    rules = Path(pipeline.__file__).parent.glob("*.py")
    cut = {code for path in rules for found in _CUT.findall(path.read_text("utf-8")) for code in found if code}
    forbidden = {v for k, v in vars(refusals).items() if k.isupper() and isinstance(v, str)}
    others = {completion.BINARY, confidence.WEAK, variants.NO_WORKSPACE, variants.RESTRICTED, "scheme:ftp"}
    return cut | forbidden | others | set(map(str, Outcome)) | {"degenerate", "stop", "whitespace", "fence"}


def test_the_codes_are_found() -> None:
    assert {"repeats-closer", "unbalanced", "block-end", "mid-line", "identity:changed", "deadline"} <= _codes()


@pytest.mark.parametrize("code", sorted(_codes()))
def test_each_reason_has_words(code: str) -> None:
    words = labels.suggested(code)
    assert words != code
    assert " " in words


def test_a_reason_that_is_not_known_is_given_as_it_is() -> None:
    assert labels.suggested("something:new") == "something:new"
    assert labels.suggested("shown") == "shown"
    assert labels.suggested("") == ""
