"""What is kept and for which question: by identity, by document, by settings, and trimmed as it is typed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.prompts.window import WindowLimits, window
from warmline.variant import ResolvedVariant
from warmline_server.lsp.documents import DocumentStore
from warmline_server.suggest.cache import Answer, IdentityDigest, ResultCache
from warmline_server.suggest.question import Question, typed_between
from warmline_server.suggest.settings import SuggestSettings
from warmline_server.suggest.typed_along import may_still_agree, rest

VARIANT = ResolvedVariant.model_validate(
    {"name": "v", "backend": "llama", "base": {"name": "b", "path": "/b"}, "adapters": (), "profile": {}, "file": "/v"}
)
ONE, OTHER = IdentityDigest("sha256:1"), IdentityDigest("sha256:2")


def question(before: str, after: str = "\n", document: str = "u", **more: object) -> Question:
    lines = DocumentStore().open(document, "python", 1, before + after)
    line = before.count("\n")
    view = window(lines, line, len(before) - before.rfind("\n") - 1, WindowLimits(prefix_lines=8, step=4))
    fields = {"multiline": True, "most": 1, "settings": SuggestSettings(), "variant": VARIANT, **more}
    return Question(document, view=view, **fields)  # type: ignore[arg-type]


def cache(size: int = 10) -> ResultCache:
    return ResultCache(lambda: size)


def test_an_answer_is_trimmed_as_it_is_typed_until_nothing_is_left() -> None:
    kept = cache()
    kept.put(ONE, question("x = "), Answer(("call(a)",), "shown"))
    for typed, left in (("", "call(a)"), ("c", "all(a)"), ("call(", "a)"), ("call(a", ")")):
        assert kept.get(ONE, question(f"x = {typed}")) == Answer((left,), "shown")
    for typed in ("call(a)", "k", "call(b", "call(a)  "):
        assert kept.get(ONE, question(f"x = {typed}")) is None


def test_no_answer_crosses_identities() -> None:
    kept = cache()
    kept.put(ONE, question("x = "), Answer(("1",), "shown"))
    assert kept.holds(question("x = "))
    assert kept.get(OTHER, question("x = ")) is None
    kept.put(OTHER, question("x = "), Answer(("2",), "shown"))
    assert kept.get(ONE, question("x = ")) == Answer(("1",), "shown")
    assert kept.get(OTHER, question("x = ")) == Answer(("2",), "shown")


def test_another_document_suffix_variant_or_setting_is_another_question() -> None:
    kept = cache()
    kept.put(ONE, question("x = "), Answer(("1",), "shown"))
    for other in (
        question("x = ", document="w"),
        question("x = ", after=")\n"),
        question("x = ", settings=SuggestSettings(min_probability=0.5)),
        question("x = ", variant=VARIANT.model_copy(update={"name": "w"})),
        question("y = "),
        question("x ="),
        question("x = ", most=3),
    ):
        assert not kept.holds(other)


def test_that_nothing_is_shown_holds_for_the_very_question_only() -> None:
    kept = cache()
    kept.put(ONE, question("x = "), Answer((), "whitespace"))
    assert kept.get(ONE, question("x = ")) == Answer((), "whitespace")
    assert kept.get(ONE, question("x = 1")) is None
    assert kept.get(ONE, question("x = ", multiline=False)) is None


def test_of_several_those_stay_that_agree_with_what_is_typed() -> None:
    kept = cache()
    kept.put(ONE, question("x = ", most=3), Answer(("call(a)", "call(b)", "other"), "shown"))
    assert kept.get(ONE, question("x = call(", most=3)) == Answer(("a)", "b)"), "shown")
    assert kept.get(ONE, question("x = call(")) == Answer(("a)",), "shown")


def test_it_is_bounded_and_the_least_recently_used_leaves() -> None:
    kept = cache(2)
    for name in "ab":
        kept.put(ONE, question(f"{name} = "), Answer((name,), "shown"))
    assert kept.get(ONE, question("a = ")) is not None
    kept.put(ONE, question("c = "), Answer(("c",), "shown"))
    assert len(kept) == 2
    assert kept.get(ONE, question("b = ")) is None
    assert kept.get(ONE, question("a = ")) is not None
    kept.put(ONE, question("c = "), Answer(("d",), "shown"))
    assert len(kept) == 2
    assert kept.get(ONE, question("c = ")) == Answer(("d",), "shown")


def test_of_none_to_keep_none_is_kept() -> None:
    kept = cache(0)
    kept.put(ONE, question("x = "), Answer(("1",), "shown"))
    assert len(kept) == 0


def test_a_window_that_moved_on_still_tells_what_was_typed() -> None:
    before = "".join(f"line_{number}\n" for number in range(30))
    earlier, later = question(before), question(before + "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf")
    assert later.view.first_line > earlier.view.first_line
    assert later.typed_since(earlier) == "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf"
    assert earlier.typed_since(later) is None


@given(st.text("ab\n(", max_size=60), st.text("ab\n(", max_size=30), st.text("ab\n)", max_size=20))
def test_what_was_typed_is_what_stands_between_two_windows(before: str, typed: str, after: str) -> None:
    earlier, later = question(before, after).view, question(before + typed, after).view
    found = typed_between(earlier, later)
    if found is not None:
        assert found == typed
    elif "\n" not in typed and after == "":
        # Within a line at the document's end nothing but the typed text moves.
        assert earlier.first_line > later.first_line


def test_another_text_before_the_cursor_was_not_typed() -> None:
    one = question("abc").view
    assert typed_between(one, question("abd").view) is None
    assert typed_between(one, replace(one, suffix="x")) is None


@pytest.mark.parametrize(
    ("so_far", "typed", "may"),
    [("", "a", True), ("ab", "a", True), ("a", "ab", True), ("ab", "b", False), ("abc", "abd", False)],
)
def test_half_a_suggestion_may_still_become_what_is_typed(so_far: str, typed: str, may: bool) -> None:
    assert may_still_agree(so_far, typed) is may


def test_of_a_suggestion_only_more_than_spaces_is_left() -> None:
    assert rest("a b", "a") == " b"
    assert rest("a  ", "a") is None
    assert rest("a", "a") is None
