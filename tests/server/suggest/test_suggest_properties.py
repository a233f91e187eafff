"""What holds for any text: no error, no special text, no lone line end, and a settled answer stays the answer."""

import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmline_server.suggest import Context, is_settled, suggest
from warmline_server.suggest.stops import special_tokens

from .drawing import parse
from .golden import CASES, GOLDEN

# Pieces that the filters care about, so that random text reaches every rule; plain characters besides.
PIECES = st.sampled_from(
    [
        *"\n\r\t ()[]{}\"'`#;:,.<>|/=x0a",
        *("\r\n", "\n\n", "    ", "        ", "\t\t", "  ", "```", "```python\n", "~~~\n", "\n}", "\n    }", "end\n"),
        *("<|endoftext|>", "<|", "|>", "</s>", "<s>", "<fim_", "[INST]", "[/IN", "STOP", "ST", "\n\n#"),
        *("Sure! Here is the code:\n", "This code works.\n", "return x\n", "    return x\n", "import os\n", "x = 1\n"),
        *(
            "if x:\n",
            "if (x) {\n",
            "case 1:\n",
            "def f():\n",
            "0, 0, 0, 0, 0, 0, 0, 0, ",
            "-" * 40,
            "a" * 30,
            "//",
            "/*",
        ),
        *("*/", '"""', "\ufffd", "😀", "\x0c", "\u2028", "\x00"),
    ]
)
TEXT = st.lists(PIECES | st.characters(), max_size=24).map("".join)
LANGUAGES = st.sampled_from(
    [
        "python",
        "javascript",
        "typescriptreact",
        "go",
        "rust",
        "c",
        "ruby",
        "shellscript",
        "html",
        "markdown",
        "nonesuch",
    ]
)
CONTEXTS = st.builds(
    Context,
    TEXT,
    TEXT,
    LANGUAGES,
    st.lists(st.sampled_from(["", "STOP", "\n\n", "T", "\n\n#", "\r\n}"]), max_size=3).map(tuple),
)
GOLDEN_TEXTS = [
    *((Context(case["before"], case["after"], case["language"]), case["raw"]) for case in CASES),
    *((parse(drawing, language)[0], raw) for language, drawing, raw, _ in GOLDEN.values()),
]


def settled_at(context: Context, raw: str, multiline: bool) -> int | None:
    return next((k for k in range(len(raw) + 1) if is_settled(context, raw[:k], multiline=multiline)), None)


def check_settled(context: Context, raw: str, multiline: bool) -> None:
    early = settled_at(context, raw, multiline)
    if early is None:
        return
    answer = suggest(context, raw[:early], multiline=multiline)
    for size in range(early, len(raw) + 1):
        assert suggest(context, raw[:size], multiline=multiline) == answer, (early, size)
        assert is_settled(context, raw[:size], multiline=multiline), (early, size)


@given(CONTEXTS, TEXT, st.booleans())
@settings(max_examples=400, deadline=None)
def test_no_text_raises_and_nothing_bad_is_inserted(context: Context, raw: str, multiline: bool) -> None:
    text = suggest(context, raw, multiline=multiline).text
    if text is None:
        return
    assert text.strip()
    assert not special_tokens(context.language).search(text)
    assert "STOP" not in text or "STOP" not in context.stops
    if context.line_end == "\r\n":
        assert not set("\r\n") & set(text.replace("\r\n", ""))


@given(CONTEXTS, TEXT, st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_settled_answer_stays_whatever_follows(context: Context, raw: str, multiline: bool) -> None:
    check_settled(context, raw, multiline)


@pytest.mark.parametrize("number", range(len(GOLDEN_TEXTS)))
@given(more=TEXT, multiline=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_settled_golden_answer_stays(number: int, more: str, multiline: bool) -> None:
    context, raw = GOLDEN_TEXTS[number]
    check_settled(context, raw + more, multiline)


@given(st.lists(PIECES, max_size=16).map("".join), st.lists(PIECES, max_size=16).map("".join), TEXT, TEXT)
@settings(max_examples=300, deadline=None)
def test_any_two_futures_of_a_settled_text_agree(before: str, after: str, raw: str, other: str) -> None:
    context = Context(before, after, "python", ("STOP", "\n\n#"))
    early = settled_at(context, raw, True)
    if early is not None:
        assert suggest(context, raw[:early] + other) == suggest(context, raw[:early])


@pytest.mark.parametrize(("context", "raw"), GOLDEN_TEXTS)
def test_what_was_shown_is_shown_again(context: Context, raw: str) -> None:
    text = suggest(context, raw).text
    if text is not None and not text[0].isspace():
        assert suggest(context, text).text == text


def test_what_the_document_derives_is_derived_once() -> None:
    lines = [
        "def f(a, b):",
        "    total = a + b",
        "    if total:",
        "        return [total]",
        "    return []",
        "",
    ] * 2_000
    context = Context("\n".join(lines) + "def g(x):\n    ", "\n" + "\n".join(lines), "python")
    raw = "".join(f"value_{n} = f(x, {n}) + other[{n}]\n    " for n in range(12))
    is_settled(context, raw)
    start = time.perf_counter()
    for size in range(0, len(raw), 4):
        is_settled(context, raw[:size])
    each = (time.perf_counter() - start) / (len(raw) / 4)
    assert each < 0.005  # some 0.3 ms on a laptop; the limit leaves room for a busy machine


def test_decoding_stops_as_soon_as_the_block_ends() -> None:
    context, _ = parse("def f(x):\n    if x:\n        │\n")
    stream = partial(is_settled, context)
    assert not stream("return 1")
    assert not stream("return 1\n    return")
    assert stream("return 1\n    return 2\n")


def test_one_line_is_settled_by_its_line_end() -> None:
    context, _ = parse("x = │\n")
    assert not is_settled(context, "1", multiline=False)
    assert is_settled(context, "1\n", multiline=False)
    assert not is_settled(context, "1\n")


def test_a_loop_without_line_ends_is_settled() -> None:
    context, _ = parse("values = [│]\n")
    assert not is_settled(context, "0, " * 8)
    assert is_settled(context, "0, " * 17)


def test_half_a_special_token_settles_nothing() -> None:
    context, _ = parse("x = │\n")
    assert not is_settled(context, "1<|endof")
    assert is_settled(context, "1<|endoftext|>")
