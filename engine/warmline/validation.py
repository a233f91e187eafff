"""Whether an artifact may be used: the rules in the order they are asked, from the file to what it does to the base.

Each rule is one function with one stable code. Those about a file's own format live beside its reader (`artifacts/`);
`rules.RULES` names them all, and docs/errors.md is made from that table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from .artifacts.gguf import GGUFHeader, read_header
from .artifacts.gguf_bytes import Source
from .artifacts.lora import AdapterSummary, check_against_base, read_adapter
from .base_rules import TOKENS, check_base
from .digests import short
from .errors import ArtifactError
from .store.records import DeclaredBase

# Loading one of these runs whatever code its author put in.
PICKLE_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


@dataclass(frozen=True, slots=True)
class CheckedAdapter:
    """A GGUF adapter that passed every rule: its summary, and the targets of pairs that change nothing."""

    summary: AdapterSummary
    zero_pairs: tuple[str, ...]


def read_base(source: Source, *, label: str, thorough: bool = False) -> GGUFHeader:
    """Read a base's header and check it.

    Parameters
    ----------
    thorough
        Read the tokens as well (half a second for the largest vocabularies): for whoever installs a base.

    Raises
    ------
    ArtifactError
        ``artifact.gguf.*`` and ``artifact.base.*``.
    """
    header = read_header(source, want_arrays=(TOKENS,) if thorough else (), label=label)
    check_base(header)
    return header


def check_gguf_adapter(source: Source, base: GGUFHeader, *, label: str) -> CheckedAdapter:
    """Check a GGUF adapter by itself, against its base, and by its weights, which are read once.

    Raises
    ------
    ArtifactError
        ``artifact.gguf.*``, ``artifact.adapter.*``.
    """
    summary = read_adapter(source, label=label)
    check_against_base(summary, base)
    return CheckedAdapter(summary, check_weights(source, summary))


def check_weights(source: Source, adapter: AdapterSummary) -> tuple[str, ...]:
    """All weights are numbers, and one pair at least has two factors other than zero; return the targets that have not.

    B starts as zeros: an adapter saved before its training looks whole, and changes nothing.
    """
    from .weights import read_weights  # NumPy, which nothing else needs that lists or resolves variants

    report = read_weights(source, adapter)
    if not report.effective:
        raise ArtifactError(
            "all products of the factors are zero: the adapter changes nothing",
            code="artifact.adapter.no_effect",
            file=adapter.file,
            remedy="Train the adapter, or save it after training",
        )
    return report.zero_pairs


def check_not_pickle(path: Path) -> None:
    """No pickle is opened, whatever is in it."""
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise ArtifactError(
            "pickle files are not loaded: loading one runs code from inside it",
            code="artifact.pickle",
            file=str(path),
            remedy="Save the adapter as safetensors (safe_serialization=True), or convert the model to GGUF",
        )


def check_backend(kind: str, backend: str, file: str) -> None:
    """The format is one that the backend applies: a GGUF adapter loads on OpenVINO and matches nothing."""
    fitting = {"gguf": "llama", "safetensors": "openvino", "openvino": "openvino"}
    if fitting[kind] != backend:
        names = {"gguf": "a GGUF file", "safetensors": "a PEFT folder", "openvino": "an OpenVINO folder"}
        wanted = "a GGUF file or a PEFT folder" if backend == "llama" else "a folder"
        raise ArtifactError(
            f"{names[kind]} cannot be used on the backend `{backend}`",
            code="artifact.backend",
            file=file,
            remedy=f"Give {wanted}, or install it for the backend `{fitting[kind]}`",
        )


def check_digest(found: str, expected: str | None, file: str, *, recorded: bool = False) -> None:
    """The bytes are those that were asked for, or with `recorded` those that the file's own record speaks of."""
    if expected is not None and found != expected:
        than = "its record says" if recorded else "expected"
        or_else = "correct its record, or install it anew," if recorded else "correct the digest"
        raise ArtifactError(
            f"the file has other content than {than}: {short(found)}, not {short(expected)}",
            code="artifact.digest",
            file=file,
            field=None if recorded else "digest",
            remedy=f"Get the right file, or {or_else} if you meant to change it",
        )


def check_declared_base(
    name: str,
    declared: DeclaredBase,
    base_digest: str,
    file: str,
    *,
    strict: bool,
    source: str | None = None,
    claimed: frozenset[str] = frozenset(),
) -> None:
    """The adapter was made for this base, by digest; without one, a curated adapter is refused (`strict`).

    A user's own adapter without a digest passes: it is shown as *unverified*. Names alone prove nothing.

    Parameters
    ----------
    source
        The GGUF file that this store imported the base from: each weight was proven to be that file's.
    claimed
        What a folder itself says that it was made of. An adapter for that passes, unless it is curated.
    """
    if declared.digest is None:
        if strict:
            raise ArtifactError(
                f"adapter `{name}` does not say by digest which base it was made for",
                code="artifact.adapter.base_unknown",
                file=file,
                remedy="Ask the curator for an entry with the base's digest, or install it as your own",
            )
        return
    if not declared.means(base_digest, source) and (strict or declared.digest not in claimed):
        raise ArtifactError(
            f"adapter `{name}` was made for another base: {declared.name or 'unnamed'} ({short(declared.digest)}), "
            f"not {short(base_digest)}",
            code="artifact.adapter.base",
            file=file,
            remedy="Use the base it was made for, or correct adapter.json beside it",
        )


def effective_scale(scale: Fraction | int, alpha: float | None, rank: int) -> Fraction:
    """Return scale * alpha / rank, exactly (alpha / rank is 1 without an alpha); it must be finite as a float."""
    return checked_scale(Fraction(scale) * (Fraction(alpha) / rank if alpha else 1))


def checked_scale(effective: Fraction) -> Fraction:
    """Return an effective scale; it must be finite as a float (``artifact.adapter.scale``)."""
    try:
        finite = math.isfinite(float(effective))
    except OverflowError:
        finite = False
    if not finite:
        raise ArtifactError(
            "the effective scale is not finite", code="artifact.adapter.scale", remedy="Correct the adapter's alpha"
        )
    return effective
