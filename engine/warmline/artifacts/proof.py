"""Proves that a converted adapter is the one it was made from: B·A of both files gives the same, pair by pair.

Both products are applied to the same fixed random vectors in float64, from the bytes that lie in the files. Conversion
only moves rows and widens bf16 to f32, which is exact, so the two sides may differ by no more than the rounding of
float64 sums: |y' - y| <= GROWTH * eps * (|B| (|A| |x|)), element by element (the usual bound for a product in floating
point has inputs + rank as its factor). That is about a billionth of the last bit of an f16 weight.

Where rows change places, the order is worked out here from rotary embedding itself, by another road than the
converter's: both must be right, or the proof fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warmline.artifacts.gguf_bytes import shown
from warmline.artifacts.matrix import Array, Matrix
from warmline.errors import ArtifactError

VECTORS = 3
_SEED = 20_260_101


@dataclass(frozen=True)
class Factors:
    """One side of the comparison: A and B of one weight, and the number that B·A is multiplied by."""

    a: Matrix
    b: Matrix
    factor: float


def prove(source: Factors, converted: Factors, *, heads: int | None, target: str) -> float:
    """Check that two adapters change one weight in the same way.

    Parameters
    ----------
    source, converted
        The pair as PEFT has it, and as it was read back from the GGUF file.
    heads
        Of how many heads B's rows were put into llama.cpp's order, or None where they were left in place.
    target
        The weight, for errors.

    Returns
    -------
    float
        The largest difference, as a part of what is allowed: below 1, and 0 where all is equal.

    Raises
    ------
    ArtifactError
        ``artifact.convert.proof``.
    """
    file = converted.a.file
    # alpha is stored as f32: half a unit in its last place.
    if not abs(converted.factor - source.factor) <= 2.0**-24 * source.factor:
        raise proof_error(file, target, f"the scale is {converted.factor:g}, expected {source.factor:g}")
    if (source.a.columns, source.b.rows) != (converted.a.columns, converted.b.rows):
        raise proof_error(file, target, "the shapes differ")
    x = np.random.default_rng(_SEED).standard_normal((source.a.columns, VECTORS))
    wanted, size = _apply(source, x)
    got, _ = _apply(converted, x)
    if heads is not None:
        order = peft_rows(len(wanted), heads)
        wanted, size = wanted[order], size[order]
    growth = source.a.columns + source.a.rows + 2
    allowed = growth * np.finfo(np.float64).eps * size
    # What is not finite compares false, and must not pass. A row of zeros allows no difference at all.
    if not bool((np.abs(got - wanted) <= allowed).all()):
        raise proof_error(file, target, "B·A of the converted file is not that of the original")
    return float(np.max(np.abs(got - wanted) / np.maximum(allowed, np.finfo(np.float64).tiny)))


def peft_rows(rows: int, heads: int) -> Array:
    """Give, for each row of q or k in llama.cpp's order, the row that holds the same in Hugging Face's.

    A head of d rows holds d/2 rotary pairs. llama.cpp's rotation for the llama architecture takes rows 2j and 2j+1 for
    pair j; Hugging Face's takes rows j and j + d/2.
    """
    d = rows // heads
    row = np.arange(rows)
    head, inside = row // d, row % d
    pair, second = inside // 2, inside % 2
    return head * d + pair + second * (d // 2)


def _apply(factors: Factors, x: Array) -> tuple[Array, Array]:
    """Return B(Ax), and the size |B|(|A||x|) that its rounding error is measured by."""
    hidden, hidden_size = _product(factors.a, x, np.abs(x))
    return _product(factors.b, hidden, hidden_size)


def _product(matrix: Matrix, x: Array, x_size: Array) -> tuple[Array, Array]:
    y = np.empty((matrix.rows, x.shape[1]))
    size = np.empty_like(y)
    for first, rows in matrix.row_chunks():
        y[first : first + len(rows)] = rows @ x
        size[first : first + len(rows)] = np.abs(rows) @ x_size
    return y, size


def proof_error(file: str, target: str | None, message: str) -> ArtifactError:
    """The error for a result that is not the adapter it was made from."""
    return ArtifactError(
        f"the conversion is not faithful: {message}",
        code="artifact.convert.proof",
        file=file,
        field=None if target is None else shown(target),
        remedy="Report this as a fault of Warmline, with the adapter; nothing was installed",
    )
