"""The engine's log: one line an event, whatever is in it, and never the words of an exception."""

from __future__ import annotations

import logging
import sys
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.host.logs import Lines, note, parsed
from warmline.host.receiving import unexpected

texts = st.text(max_size=40)
values = st.one_of(texts, st.integers(), st.none(), st.booleans(), st.lists(texts, max_size=3))


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(Lines())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(scope="module")
def kept() -> tuple[logging.Logger, Kept]:
    log, handler = logging.getLogger("warmline.test.logs"), Kept()
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return log, handler


@given(texts, st.dictionaries(st.text("abc_", min_size=1, max_size=5), values, max_size=4))
def test_whatever_is_logged_is_one_line_that_can_be_read_back(
    kept: tuple[logging.Logger, Kept], message: str, fields: dict[str, object]
) -> None:
    log, handler = kept
    note(log, message.replace("%", "%%"), **fields)
    line = handler.lines.pop()
    assert len(line.encode("utf-8", "surrogatepass").split(b"\n")) == 1
    found = parsed(line)
    assert found is not None
    assert (found["level"], found["logger"], found["fields"]) == ("INFO", "warmline.test.logs", fields)
    assert datetime.fromisoformat(found["time"]).tzinfo is not None
    if "\\" not in message and message.isprintable():
        assert found["message"] == message.replace("%", "%%")


def test_of_an_exception_only_its_place_is_logged(kept: tuple[logging.Logger, Kept]) -> None:
    log, handler = kept
    try:
        raise ValueError("somebody's code")
    except ValueError:
        log.exception("a job failed")
    found = parsed(handler.lines.pop())
    assert found is not None
    assert found["fields"]["error"] == "ValueError"
    assert "test_of_an_exception" in found["fields"]["traceback"]
    assert "somebody's code\n" not in str(found).replace('raise ValueError("somebody\'s code")', "")


def test_an_unexpected_error_is_logged_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Kept()
    log = logging.getLogger("warmline.host.receiving")
    monkeypatch.setattr(log, "handlers", [handler])
    monkeypatch.setattr(log, "propagate", False)
    secret = "a_secret"
    try:
        int(secret)
    except ValueError as error:
        unexpected(error)
    [line] = handler.lines
    assert "a_secret" not in line
    assert (parsed(line) or {})["fields"]["error"] == "ValueError"


@pytest.mark.parametrize("line", ["", "ggml: something", "a b c: d\t{", "2026 INFO x: y\t[1]", "x" * 10_000])
def test_what_native_code_wrote_is_no_record(line: str) -> None:
    assert parsed(line) is None


def test_lines_go_where_python_puts_them() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, "%s, %d", ("one\ntwo\tthree", 4), None)
    assert Lines().format(record).endswith(" WARNING a.b: one\\ntwo\\tthree, 4")
    assert sys.exc_info()[0] is None
