"""Options that many commands share, and the names that a shell completes; completing loads no native library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="JSON for programs.")]
BackendOption = Annotated[
    Literal["llama", "openvino"] | None, typer.Option(help="Which backend, where a name stands for more than one.")
]
_DIGITS: Final = 12


def model_names(incomplete: str) -> list[str]:
    """Complete the name of an installed base."""
    return _artifacts("models", incomplete)


def adapter_names(incomplete: str) -> list[str]:
    """Complete the name of an installed adapter."""
    return _artifacts("adapters", incomplete)


def variant_names(incomplete: str) -> list[str]:
    """Complete the name of a variant of the store, or of the workspace at hand."""
    from warmline.registry import Store, find_workspace, warmline_home

    try:
        found = Store(warmline_home()).variants(find_workspace(Path.cwd()))
    except Exception:  # a shell shows nothing rather than an error in the middle of a line
        return []
    return _starting({each.name for each in found}, incomplete)


def own_variant_names(incomplete: str) -> list[str]:
    """Complete the name of a variant of the store."""
    return _files("variants", incomplete)


def setting_names(incomplete: str) -> list[str]:
    """Complete the name of a setting."""
    from warmline.settings import setting_names as names

    return _starting(set(names()), incomplete)


def quarantined_digests(incomplete: str) -> list[str]:
    """Complete the digest of something that crashed the engine."""
    import json

    from warmline.registry import warmline_home

    try:
        known = json.loads((warmline_home() / "crashes" / "counts.json").read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return _starting({str(digest).removeprefix("sha256:")[:_DIGITS] for digest in known}, incomplete)


def approved_digests(incomplete: str) -> list[str]:
    """Complete a digest that the user approved."""
    from warmline.registry import warmline_home
    from warmline.trust import TrustStore

    try:
        entries = TrustStore(warmline_home() / "trust.json").entries()
    except Exception:
        return []
    return _starting({digest.removeprefix("sha256:")[:_DIGITS] for digest in entries}, incomplete)


def _artifacts(kind: str, incomplete: str) -> list[str]:
    from warmline.registry import warmline_home

    return _starting({path.parent.name for path in (warmline_home() / kind).glob("*/*/record.json")}, incomplete)


def _files(kind: str, incomplete: str) -> list[str]:
    from warmline.registry import warmline_home

    return _starting({path.stem for path in (warmline_home() / kind).glob("*/*.json")}, incomplete)


def _starting(names: set[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
