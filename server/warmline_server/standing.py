"""How a variant stands, for all faces: certified, failed, void or without a certificate."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warmline.certificate_store import Certificates
    from warmline.host.wire import VariantStatus
    from warmline.variant import Profile

NONE: Final = "none"


def standing(home: Path, status: VariantStatus, profile: Profile | None = None) -> str:
    """Tell how a variant stands that was verified just now (`Certificates.standing`)."""
    known = certificates(home)
    return NONE if known is None else str(known.standing(status, profile))


def certificates(home: Path) -> Certificates | None:
    """Return a store's certificates; None where there are none, which needs nothing to be imported."""
    if next((home / "certificates").glob("*.json"), None) is None:
        return None
    return _of(home)


@lru_cache(maxsize=4)
def _of(home: Path) -> Certificates:
    from warmline.certificate_store import Certificates

    return Certificates(home)
