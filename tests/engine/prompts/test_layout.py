"""A completion's prompt with context from other documents: it comes first, and what comes later leaves it in place."""

from __future__ import annotations

import pytest
from warmline.errors import PromptError
from warmline.kv.prefix import common_prefix
from warmline.prompts.fim import FimFormat
from warmline.prompts.layout import completion_prompt
from warmline.prompts.window import Window, fit_texts

SUFFIX_FIRST = FimFormat("suffix-first", prefix=1, suffix=2, middle=3)
PREFIX_ONLY = FimFormat("prefix-only")


def tokenize(text: str) -> list[int]:
    return [1000 + ord(letter) for letter in text]


def text_of(tokens: list[int]) -> str:
    return "".join(chr(token - 1000) if token >= 1000 else f"<{token}>" for token in tokens)


def prompt(prefix: str, fim: FimFormat = PREFIX_ONLY, n_ctx: int = 1000, **more: object) -> list[int]:
    view = Window(prefix, "after\n", 0, 0, False, False)
    fields = {"bos": 0, "path": "a.py", "max_tokens": 10, **more}
    return completion_prompt(view, fim, tokenize=tokenize, n_ctx=n_ctx, **fields)  # type: ignore[arg-type]


def test_context_and_name_stand_before_everything_else() -> None:
    more = {"context": ("# b\nB\n", "# c\nC\n"), "header": "# a.py\n"}
    assert text_of(prompt("x = ", **more)) == "<0># b\nB\n# c\nC\n# a.py\nx = "
    assert text_of(prompt("x = ", SUFFIX_FIRST, **more)) == "<0># b\nB\n# c\nC\n# a.py\n<2>after\n<1>x = <3>"


def test_a_format_with_a_place_for_the_name_gets_it_once() -> None:
    fim = FimFormat("suffix-first", prefix=1, suffix=2, middle=3, file_header=4)
    found = text_of(prompt("x = ", fim, context=("# b\nB\n",), header="# a.py\n"))
    assert found == "<0># b\nB\n<4>a.py\n<2>after\n<1>x = <3>"
    assert text_of(prompt("x = ", fim, path=None, header="# a\n")).startswith("<0># a\n<2>")


def test_without_context_the_prompt_is_as_it_was() -> None:
    assert prompt("x = ") == prompt("x = ", context=(), header="")
    assert text_of(prompt("x = ", SUFFIX_FIRST)) == "<0><2>after\n<1>x = <3>"


def test_one_more_text_leaves_the_tokens_before_it() -> None:
    texts: list[str] = []
    last: tuple[int, ...] = ()
    kept = 0
    for number in range(60):
        texts.append(f"text {number:02}.{'x' * 30}\n")
        now = fit_texts(texts, tokenize, 400)
        assert len(now) <= 400
        kept += now[: len(last)] == last
        last = now
    assert kept > 40  # the others are the cuts, a quarter of the room apart
    assert fit_texts([], tokenize, 400) == ()


@pytest.mark.parametrize("fim", [PREFIX_ONLY, SUFFIX_FIRST])
def test_typing_appends_whatever_the_context(fim: FimFormat) -> None:
    texts = tuple(f"text {number}.{'x' * 60}\n" for number in range(9))
    one, two = (prompt("y" * 200 + typed, fim, context=texts, header="# a\n") for typed in ("", "z"))
    end = 1 if fim.middle is not None else 0
    assert common_prefix(one, two) == len(one) - end
    assert len(two) == len(one) + 1


def test_all_of_it_stays_within_the_context() -> None:
    texts = tuple("x" * 100 for _ in range(20))
    for n_ctx in (64, 100, 300, 1000):
        assert len(prompt("y" * 2000, SUFFIX_FIRST, n_ctx, context=texts, header="# a.py\n")) <= n_ctx - 10
    with pytest.raises(PromptError) as caught:
        prompt("y", SUFFIX_FIRST, 40, header="#" * 20)
    assert caught.value.code == "prompt.room"
