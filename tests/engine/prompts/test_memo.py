"""The token memo gives what tokenising everything gives, edit after edit."""

from __future__ import annotations

import argparse
import random
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smollm2 import base_path
from warmline.backends.llama import LlamaBackend, LlamaModel
from warmline.digests import DigestCache
from warmline.prompts.memo import TokenMemo

# A pre-tokenizing toy: words with a leading blank, runs of blanks, digits three by three; then pairs of letters.
_PATTERN = re.compile(r" ?[^\W\d]+| ?\d{1,3}| ?[^\w\s]+|\s+(?!\S)|\s+")


def toy(text: str) -> list[int]:
    data = [part.group().encode() for part in _PATTERN.finditer(text)]
    pieces = [word[at : at + 2] for word in data for at in range(0, len(word), 2)]
    return [int.from_bytes(b"\x01" + piece, "big") for piece in pieces]


def piece(token: int) -> bytes:
    return token.to_bytes((token.bit_length() + 7) // 8, "big")[1:]


texts = st.text(st.sampled_from("ab1 \n\t(),é\u4e2d\U0001f600"), max_size=60)


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), texts), max_size=12), st.integers(0, 10))
@settings(deadline=None)
def test_any_edits(edits: list[tuple[int, int, str]], seed: int) -> None:
    calls: list[int] = []

    def counted(text: str) -> list[int]:
        calls.append(len(text))
        return toy(text)

    text = "".join(random.Random(seed).choices("abc 1\n(é", k=3000))
    memo = TokenMemo(counted, piece)
    assert memo(text) == toy(text)
    for at, removed, inserted in edits:
        at = min(at, len(text))
        text = text[:at] + inserted + text[at + removed :]
        assert memo(text) == toy(text)


def test_typing_at_the_end_tokenises_only_the_end() -> None:
    calls: list[int] = []

    def counted(text: str) -> list[int]:
        calls.append(len(text))
        return toy(text)

    text = "some words (and 12 more)\n" * 400
    memo = TokenMemo(counted, piece)
    memo(text)
    for letter in "typed":
        text += letter
        assert memo(text) == toy(text)
    assert max(calls[1:]) < 1000
    memo(text)
    assert len(calls) == 6


def test_a_split_that_does_not_fall_into_step_is_done_again() -> None:
    """A tokenizer with a memory: each token says how far from the text's start it stands."""

    def from_the_start(text: str) -> list[int]:
        return [(index << 32) + token for index, token in enumerate(toy(text))]

    text = "words and words " * 300
    memo = TokenMemo(from_the_start, lambda token: piece(token & 0xFFFFFFFF))
    memo(text)
    assert memo(text + "x") == from_the_start(text + "x")


@pytest.fixture(scope="module")
def model() -> Iterator[LlamaModel]:
    digests = DigestCache()
    backend = LlamaBackend(digests)
    yield backend.load(base_path(), digests.digest(base_path()))
    backend.close()


@pytest.mark.model
def test_real_files_typed_and_edited(model: LlamaModel) -> None:
    whole: Callable[[str], list[int]] = lambda text: model._vocabulary.tokenize(text, special=False)  # noqa: E731
    rng = random.Random(7)
    for module in (argparse, textwrap, re):
        source = Path(module.__file__ or "").read_text()[:20_000]
        at = len(source) // 2
        text = source[:at]
        for _ in range(60):
            roll = rng.random()
            if roll < 0.7:
                step = rng.choice((1, 1, 1, 4, 40))
                text += source[at : at + step]
                at += step
            elif roll < 0.85:
                text = text[: -rng.randint(1, 30)]
            else:
                place = rng.randint(len(text) // 2, len(text))
                text = text[:place] + rng.choice(("\n", "    ", "é😀", "x = 1\n\n", "\t")) + text[place:]
            assert model.tokenize(text) == whole(text)
