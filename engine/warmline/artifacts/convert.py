"""Converts a PEFT LoRA adapter to GGUF for llama.cpp, without torch, and proves each pair before it is installed.

Weights pass through a chunk at a time. f16 and f32 stay what they are. bf16 becomes f32: that loses nothing, while f16
would lose range, and with bf16 weights llama.cpp rounds the activations to bf16 as well. A stays as it is; B's rows
change places where the architecture needs it. rsLoRA's factor goes into alpha, since llama.cpp knows only alpha / rank.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from warmline.artifacts.architectures import Architecture, architecture_of, heads, name_map
from warmline.artifacts.gguf import GGUFHeader, TensorInfo
from warmline.artifacts.gguf_bytes import ReadAt, opened, shown
from warmline.artifacts.gguf_write import Layout, Metadata, NewTensor, lay_out, write
from warmline.artifacts.lora import AdapterSummary, BaseModelRef, LoraPair, check_against_base, read_adapter
from warmline.artifacts.matrix import WIDTHS, Matrix, values
from warmline.artifacts.peft import Folder, PeftAdapter, PeftConfig, matrix, open_peft
from warmline.artifacts.proof import Factors, proof_error, prove
from warmline.errors import ArtifactError

__all__ = ["ConversionReport", "convert_peft"]

_HUB_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95})/([A-Za-z0-9][\w.-]{0,95})", re.ASCII)
WRITTEN_DTYPES = {"f32": "f32", "f16": "f16", "bf16": "f32"}
MAX_NAME = 256


@dataclass(frozen=True)
class ConversionReport:
    """What was converted, as read back from the file that was written.

    Parameters
    ----------
    adapter
        The GGUF file's own summary: architecture, rank, alpha as written, pairs, base model, licence.
    source_digest
        ``sha256:`` of the safetensors file.
    factor
        What llama.cpp multiplies B·A by at scale 1; PEFT's own to within f32.
    nbytes
        Size of the written file.
    n_permuted
        Pairs whose B had its rows put into llama.cpp's order.
    widened
        Whether bf16 weights became f32.
    worst
        The largest difference that `prove` saw, as a part of what it allows.
    """

    adapter: AdapterSummary
    source_digest: str
    factor: float
    nbytes: int
    n_permuted: int
    widened: bool
    worst: float


@dataclass(frozen=True)
class _Step:
    """One pair on its way: its weight's name in GGUF, its factors, and the heads whose rows are moved (or None)."""

    target: str
    a: Matrix
    b: Matrix
    heads: int | None


def convert_peft(
    folder: Folder, base_header: GGUFHeader, target: Folder, *, name: str | None = None
) -> ConversionReport:
    """Convert an adapter folder for a base.

    Parameters
    ----------
    folder
        Holds ``adapter_config.json`` and ``adapter_model.safetensors``.
    base_header
        The base's header, by `gguf.read_header`.
    target
        The GGUF file to write. It is written under another name in the same folder, proven, and only then renamed: it
        is never there in part, and an older file under that name stays where anything fails.
    name
        ``general.name`` of the result; by default the folder's name. The same folder and name give the same bytes.

    Raises
    ------
    ArtifactError
        What `peft.read_peft` raises; ``artifact.convert.*`` for what cannot be converted or written, and where the
        result is not proven; ``artifact.adapter.*`` where the adapter does not fit the base.
    """
    with open_peft(folder) as (source, read_at):
        architecture = architecture_of(base_header)
        steps = _steps(source, read_at, architecture, base_header)
        tensors = [tensor for step in steps for tensor in _tensors(step)]
        alpha = native_alpha(source.config)
        layout = lay_out(_metadata(source, architecture, alpha, name or Path(folder).resolve().name), tensors)
        planned = _planned(os.fspath(target), architecture, alpha, layout)
        check_against_base(planned, base_header)
        with _replacing(Path(target)) as (file, path):
            nbytes = write(file, layout, tensors)
            file.flush()
            adapter, worst = _proven(path, planned, steps, source)
    return ConversionReport(
        adapter=adapter,
        source_digest=source.digest,
        factor=adapter.native_factor,
        nbytes=nbytes,
        n_permuted=sum(step.heads is not None for step in steps),
        widened=any(m.dtype == "bf16" for step in steps for m in (step.a, step.b)),
        worst=worst,
    )


# ---- what will be written ----


def _steps(source: PeftAdapter, read_at: ReadAt, architecture: Architecture, base: GGUFHeader) -> list[_Step]:
    gguf_name = name_map(architecture, base, source.file)
    steps: dict[str, _Step] = {}
    for pair in source.pairs:
        target = gguf_name(pair.module)
        if target in steps:
            message = f"two modules of the adapter are the base's {target}"
            code = "artifact.convert.module"
            remedy = "Save the adapter again"
            raise ArtifactError(message, code=code, file=source.file, field=shown(pair.module), remedy=remedy)
        a, b = matrix(pair.a, read_at, source.file), matrix(pair.b, read_at, source.file)
        steps[target] = _Step(target, a, b, heads(architecture, base, target))
    return list(steps.values())


def _tensors(step: _Step) -> tuple[NewTensor, NewTensor]:
    pieces = step.b.raw_chunks if step.heads is None else partial(interleaved, step.b, step.heads)
    return _tensor(f"{step.target}.lora_a", step.a, step.a.raw_chunks), _tensor(f"{step.target}.lora_b", step.b, pieces)


def _tensor(name: str, m: Matrix, pieces: Callable[[], Iterator[bytes]]) -> NewTensor:
    dtype = WRITTEN_DTYPES[m.dtype]
    nbytes = m.rows * m.columns * WIDTHS[dtype]
    return NewTensor(name, (m.columns, m.rows), dtype, nbytes, lambda: (_written(piece, m.dtype) for piece in pieces()))


def _written(piece: bytes, dtype: str) -> bytes:
    return values(np.frombuffer(piece, "<u2"), dtype).tobytes() if dtype == "bf16" else piece


def interleaved(m: Matrix, heads: int) -> Iterator[bytes]:
    """Give the rows of q or k so that the two halves of each head alternate: 0, d/2, 1, d/2 + 1 and so on."""
    half = m.rows // heads // 2
    for start in range(0, m.rows, 2 * half):
        for first in range(0, half, m.chunk_rows):
            count = min(m.chunk_rows, half - first)
            lower, upper = m.bits(start + first, count), m.bits(start + half + first, count)
            yield np.stack((lower, upper), axis=1).tobytes()


def native_alpha(config: PeftConfig) -> float:
    """The alpha by which llama.cpp's alpha / rank is PEFT's factor: times sqrt(r) where that is alpha / sqrt(r)."""
    return config.lora_alpha * (math.sqrt(config.r) if config.use_rslora else 1.0)


def _metadata(source: PeftAdapter, architecture: Architecture, alpha: float, name: str) -> Metadata:
    metadata: dict[str, str | int | float] = {
        "general.type": "adapter",
        "general.architecture": architecture.name,
        "general.name": shown(name, MAX_NAME),
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    if source.license:
        metadata["general.license"] = source.license
    base = base_model(source.config.base_model)
    if base is not None:
        metadata["general.base_model.count"] = 1
        metadata["general.base_model.0.name"] = base.name or ""
        if base.organization:
            metadata["general.base_model.0.organization"] = base.organization
    return metadata


def base_model(declared: str | None) -> BaseModelRef | None:
    """Read ``base_model_name_or_path``: ``organization/name`` of a hub, or a path, of which only the end is kept.

    A path tells about the machine that trained the adapter, and nothing about the base.
    """
    if not declared:
        return None
    hub = _HUB_NAME.fullmatch(declared)
    if hub:
        return BaseModelRef(name=hub[2], organization=hub[1], repo_url=None)
    last = re.split(r"[/\\]", declared.rstrip("/\\"))[-1]
    return BaseModelRef(name=shown(last, MAX_NAME), organization=None, repo_url=None) if last else None


def _planned(label: str, architecture: Architecture, alpha: float, layout: Layout) -> AdapterSummary:
    """What reading the file back must find, down to each offset; its descriptive fields are left empty."""
    pairs = tuple(
        LoraPair(a.name.removesuffix(".lora_a"), a, b, a.ne[1])
        for a, b in zip(layout.tensors[::2], layout.tensors[1::2], strict=True)
    )
    return AdapterSummary(
        file=label,
        architecture=architecture.name,
        name=None,
        alpha=float(np.float32(alpha)),
        rank=pairs[0].rank,
        pairs=pairs,
        n_params=sum(tensor.n_elements for tensor in layout.tensors),
        nbytes=sum(tensor.nbytes for tensor in layout.tensors),
        task_name=None,
        prompt_prefix=None,
        base_models=(),
        license=None,
    )


# ---- writing and proving ----


@contextmanager
def _replacing(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Give a new file beside the target, which becomes the target when the block ends well, and goes away otherwise."""
    try:
        fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=".converting-", suffix=".gguf")
        try:
            with os.fdopen(fd, "wb") as file:
                yield file, Path(temporary)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        message = f"the file cannot be written: {error.strerror or error}"
        remedy = "Free some space, or check the folder and its permissions"
        code = "artifact.convert.write"
        raise ArtifactError(message, code=code, file=os.fspath(target), remedy=remedy) from error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _proven(
    path: Path, planned: AdapterSummary, steps: list[_Step], source: PeftAdapter
) -> tuple[AdapterSummary, float]:
    """Read the written file with our own reader and prove each pair; give its summary and the largest difference."""
    with opened(path, planned.file) as (read_at, _):
        adapter = read_adapter(path, label=planned.file)
        if (adapter.architecture, adapter.alpha, adapter.pairs) != (planned.architecture, planned.alpha, planned.pairs):
            raise proof_error(planned.file, None, "the header read back is not the one that was written")
        worst = 0.0
        for pair, step in zip(adapter.pairs, steps, strict=True):
            a, b = _as_matrix(pair.a, read_at, adapter.file), _as_matrix(pair.b, read_at, adapter.file)
            converted = Factors(a, b, adapter.native_factor)
            original = Factors(step.a, step.b, source.factor)
            worst = max(worst, prove(original, converted, heads=step.heads, target=pair.target))
    return adapter, worst


def _as_matrix(tensor: TensorInfo, read_at: ReadAt, file: str) -> Matrix:
    return Matrix(read_at, file, tensor.name, tensor.dtype, tensor.ne[1], tensor.ne[0], tensor.offset)
