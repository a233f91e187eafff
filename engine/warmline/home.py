"""Where the user's store is."""

from __future__ import annotations

import os
from pathlib import Path


def warmline_home() -> Path:
    """Return the user's store: `WARMLINE_HOME`, else the platform's data folder."""
    given = os.environ.get("WARMLINE_HOME")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("warmline", appauthor=False)
