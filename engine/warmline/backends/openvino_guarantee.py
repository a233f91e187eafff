"""What was measured of the installed OpenVINO GenAI's prefix cache, kept by version; loads nothing that is native."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..digests import write_atomically

_FILE: Final = "openvino.json"


@dataclass(frozen=True, slots=True)
class Canary:
    """What was measured.

    Parameters
    ----------
    version
        Of the library.
    shared_mixes
        Whether one pipeline with a prefix cache mixes an adapter's KV with that of the bare base.
    own_apart
        Whether a pipeline of the identity's own answers cold and warm as one without any cache.
    """

    version: str
    shared_mixes: bool
    own_apart: bool


def remember(home: Path, canary: Canary) -> None:
    """Keep a result in the store's cache."""
    write_atomically(home / "cache" / _FILE, json.dumps(asdict(canary)).encode())


def remembered(home: Path, of_version: str) -> Canary | None:
    """Return what was measured of this version, None if it was not."""
    try:
        found = Canary(**json.loads((home / "cache" / _FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.version == of_version else None
