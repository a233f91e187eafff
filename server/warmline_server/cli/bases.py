"""Which installed base a name means, where two backends have one of that name."""

from __future__ import annotations

from warmline.errors import StoreError
from warmline.filemodel import Backend
from warmline.registry import Store
from warmline.settings import load_settings


def find_base(store: Store, name: str, backend: Backend | None) -> tuple[tuple[Backend, str], bool]:
    """Find a base by its name or ``backend/name``: its backend and plain name.

    The second value is True where two backends have it and the setting `backend` decided. Raises `StoreError`,
    ``store.unknown_model``.
    """
    try:
        return store.places.models.find(name, backend), False
    except StoreError as error:
        if error.code != "store.ambiguous":
            raise
        return store.places.models.find(name, load_settings(store.home).backend), True
