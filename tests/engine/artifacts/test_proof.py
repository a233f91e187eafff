"""The proof of a conversion: it passes what is equal, and notices the last bit, one row out of place, another scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from warmline.artifacts.convert import interleaved
from warmline.artifacts.matrix import Array, Matrix
from warmline.artifacts.proof import Factors, peft_rows, prove
from warmline.errors import ArtifactError


def in_memory(values: Array, name: str = "m") -> Matrix:
    raw = values.astype("<f4").tobytes()
    return Matrix(lambda at, n: raw[at : at + n], "adapter.gguf", name, "f32", *values.shape, 0)


def both(a: Array, b: Array, factor: float = 2.0) -> Factors:
    return Factors(in_memory(a), in_memory(b), factor)


def proof_refused(source: Factors, converted: Factors, heads: int | None = None) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        prove(source, converted, heads=heads, target="blk.0.attn_q.weight")
    assert (caught.value.code, caught.value.field) == ("artifact.convert.proof", "blk.0.attn_q.weight")
    return caught.value


def test_the_proof_notices_the_last_bit_of_one_weight() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((4, 64)), rng.standard_normal((32, 4))
    assert prove(both(a, b), both(a, b), heads=None, target="t") < 1
    for factor, other in ((a, 0), (b, 1)):
        changed = factor.astype("<f4")
        changed[3, 2] = np.nextafter(changed[3, 2], np.float32(9))
        pair = [a, b]
        pair[other] = changed
        proof_refused(both(a, b), both(*pair))


def test_the_proof_notices_rows_in_the_wrong_place() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((4, 64)), rng.standard_normal((32, 4))
    moved = b[peft_rows(32, 4)]
    assert prove(both(a, b), both(a, moved), heads=4, target="t") < 1
    proof_refused(both(a, b), both(a, b), heads=4)
    proof_refused(both(a, b), both(a, moved))
    proof_refused(both(a, b), both(a, moved), heads=2)


def test_the_proof_notices_another_scale_shape_or_nothing() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((4, 64)), rng.standard_normal((32, 4))
    proof_refused(both(a, b), both(a, b, 2.0 * (1 + 1e-6)))
    proof_refused(both(a, b), both(a, b, math.nan))
    proof_refused(both(a, b), both(a[:, :63], b))
    proof_refused(both(a, b), both(a, np.zeros_like(b)))
    proof_refused(both(a, b), both(a, np.full_like(b, np.nan)))
    proof_refused(both(a, np.zeros_like(b)), both(a, np.full_like(b, 1e-30)))


def test_factors_that_are_zero_prove_themselves() -> None:
    a, b = np.ones((4, 64)), np.zeros((32, 4))
    assert prove(both(a, b), both(a, b), heads=4, target="t") == 0


@pytest.mark.parametrize(("heads", "rows"), [(1, 2), (1, 8), (2, 8), (3, 12), (9, 576), (1, 4_096)])
def test_both_roads_to_the_row_order_meet(heads: int, rows: int) -> None:
    columns = 100
    data = np.arange(rows * columns, dtype="<f4").reshape(rows, columns)
    moved = np.frombuffer(b"".join(interleaved(in_memory(data), heads)), "<f4").reshape(rows, columns)
    np.testing.assert_array_equal(moved, data[peft_rows(rows, heads)])
