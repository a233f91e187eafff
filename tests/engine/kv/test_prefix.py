"""The longest common prefix, against a loop that anybody believes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.kv.prefix import common_prefix

FEW = st.lists(st.integers(0, 2), max_size=12)


def naive(a: Sequence[int], b: Sequence[int]) -> int:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


@given(FEW, FEW)
def test_short_lists(a: list[int], b: list[int]) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == naive(a, b)


@given(st.integers(0, 1100), FEW, FEW)
def test_long_lists_that_part_anywhere(shared: int, a: list[int], b: list[int]) -> None:
    stem = list(range(shared))
    assert common_prefix(stem + a, stem + b) == shared + naive(a, b)


@pytest.mark.parametrize("at", [0, 1, 255, 256, 257, 511, 512, 513, 999])
def test_one_token_differs(at: int) -> None:
    a = list(range(1000))
    b = [*a[:at], -1, *a[at + 1 :]]
    assert common_prefix(a, b) == common_prefix(b, a) == at


@given(FEW, FEW)
def test_lists_and_tuples_alike(a: list[int], b: list[int]) -> None:
    assert common_prefix(tuple(a), b) == common_prefix(a, tuple(b)) == naive(a, b)


def test_a_long_list_and_a_long_tuple() -> None:
    tokens = list(range(1000))
    assert common_prefix(tuple(tokens), [*tokens[:600], 0]) == 600
