"""The quantisation of a GGUF is found again in its dequantised values, whatever its format."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmline.importing.forms import quantise
from warmline.importing.lattice import find_lattice

# Format, values of a group that share step and zero point, highest level, where a block keeps its f16 scales.
FORMATS = [
    ("Q4_0", 32, 15, (0,)),
    ("Q4_1", 32, 15, (0, 2)),
    ("Q5_0", 32, 31, (0,)),
    ("Q5_1", 32, 31, (0, 2)),
    ("Q8_0", 32, 255, (0,)),
    ("Q4_K", 32, 15, (0, 2)),
    ("Q5_K", 32, 31, (0, 2)),
    ("Q2_K", 16, 3, (80, 82)),
    ("Q3_K", 16, 7, (108,)),
    ("Q6_K", 16, 63, (208,)),
]


def dequantised(name: str, scales: tuple[int, ...], rows: int, columns: int, seed: int) -> np.ndarray:
    """Random blocks of a format with sensible scales, by gguf-py."""
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (rows * columns // block, size)).astype(np.uint8)
    for at in scales:
        blocks[:, at : at + 2] = random.uniform(0.001, 0.1, (len(blocks), 1)).astype(np.float16).view(np.uint8)
    return gguf.dequantize(blocks.reshape(rows, -1), kind)


@pytest.mark.parametrize(("name", "group", "highest", "scales"), FORMATS)
def test_every_affine_format_is_found_to_a_floats_last_bits(
    name: str, group: int, highest: int, scales: tuple[int, ...]
) -> None:
    values = dequantised(name, scales, 48, 512, seed=1).reshape(48, -1, group)
    found = find_lattice(values)
    assert found is not None
    assert found.levels.max() <= highest
    off = np.abs((found.levels - found.zero) * found.step - values).max(axis=-1)
    assert (off <= 1e-6 * np.abs(values).max(axis=-1)).all()


def test_values_of_no_lattice_are_not_forced_onto_one() -> None:
    values = np.random.default_rng(0).standard_normal((4, 2, 32)).astype(np.float32)
    assert find_lattice(values) is None
    assert find_lattice(dequantised("IQ4_NL", (0,), 8, 256, seed=2).reshape(8, -1, 32)) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 15), min_size=32, max_size=32),
    st.floats(2**-14, 8, width=16),
    st.floats(-100, 100, width=16),
)
def test_groups_of_any_levels_are_found(levels: list[int], step: float, low: float) -> None:
    values = (np.float32(step) * np.array(levels, np.float32) + np.float32(low)).reshape(1, 1, 32)
    found = find_lattice(values)
    if found is None:  # steps that float32 can hardly tell apart beside the offset
        assert step < 1e-4 * abs(low) or len({*levels}) < 16
        return
    off = np.abs((found.levels - found.zero) * found.step - values)
    assert off.max() <= 2e-6 * max(np.abs(values).max(), 1e-30)


def test_int8_is_right_to_half_a_step() -> None:
    values = np.random.default_rng(0).standard_normal((6, 4, 32)).astype(np.float32)
    values[0, 0] = 0
    scales, quants = quantise(values)
    assert (np.abs(quants * scales.astype(np.float32) - values) <= scales.astype(np.float32) * 0.56).all()
