"""The examples that come with Warmline: where they are, and the adapters that Warmline itself vouches for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from warmline.errors import ConfigError
from warmline.variant import AdapterRecord, load_file

import warmline_server


def folder() -> Path:
    """Return the examples' folder: inside the installed package, or at the top of a checkout.

    Raises
    ------
    ConfigError
        ``config.examples``: neither is there.
    """
    package = Path(warmline_server.__file__).parent
    for place in (package / "examples", package.parent.parent / "examples"):
        if (place / "demo.json").is_file():
            return place
    raise ConfigError(
        "the examples are not beside this Warmline",
        code="config.examples",
        file=str(package / "examples"),
        remedy="Install Warmline again, or run it from a checkout",
    )


def approved(examples: Path) -> frozenset[str]:
    """Return the digests that the examples' own records name: whoever installed Warmline has these very bytes."""
    records = sorted((examples / "adapters").glob("*/adapter.json"))
    return frozenset(load_file(record, AdapterRecord).digest for record in records)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One of the demo's prompts: a cursor (`at`, LINE:COL from 1), what is typed there, and who completes it."""

    name: str
    file: str
    at: str
    typed: str
    variants: tuple[str, ...]


def prompts(examples: Path) -> list[Prompt]:
    """Read `demo.json`."""
    entries = json.loads((examples / "demo.json").read_text("utf-8"))["prompts"]
    return [Prompt(**{**entry, "variants": tuple(entry["variants"])}) for entry in entries]
