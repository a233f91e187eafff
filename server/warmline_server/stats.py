"""How many suggestions of each variant were shown and accepted, and how long they took: on this machine only.

Numbers by the variant's name, and nothing else: no code, no path, no digest. One file in the store (0600), bounded, to
which several servers add: each keeps what it counted until it writes it, under a lock.
"""

from __future__ import annotations

import math
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from filelock import FileLock
from filelock import Timeout as LockTimeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from warmline.digests import open_regular, private_folder, write_atomically
from warmline.errors import WarmlineError

STATS_FILE: Final = "stats.json"
#: Where a file goes that cannot be read as such: one at most, since it may be all that a newer version counted.
UNREADABLE_FILE: Final = f"{STATS_FILE}.unreadable-1"
_MOST_VARIANTS: Final = 256
_MOST_BYTES: Final = 4 << 20
_LOCK_SECONDS: Final = 2.0
# Times are counted in classes, each reaching a quarter further than the one before: a quantile is right within 12 %.
_GROWTH: Final = 1.25
_CLASSES: Final = 60  # up to 650 s

_MOST: Final = 1 << 53
_YEAR_9999: Final = 253_402_300_799

Count = Annotated[int, Field(ge=0, le=_MOST)]
Moment = Annotated[float, Field(ge=0, le=_YEAR_9999, allow_inf_nan=False)]


class Tally(BaseModel):
    """What was counted of one variant. `latency` is a number of answers by class of time; see `quantile_ms`."""

    model_config = ConfigDict(extra="forbid")

    shown: Count = 0
    accepted: Count = 0
    latency: dict[Annotated[int, Field(ge=0, lt=_CLASSES)], Count] = Field(default_factory=dict)
    first: Moment = Field(default=0, description="Seconds since the epoch; 0: never.")
    last: Moment = Field(default=0, description="Seconds since the epoch; 0: never.")

    def add(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        self.shown = min(_MOST, self.shown + other.shown)
        self.accepted = min(_MOST, self.accepted + other.accepted)
        for number, count in other.latency.items():
            self.latency[number] = min(_MOST, self.latency.get(number, 0) + count)
        self.first = min((at for at in (self.first, other.first) if at), default=0)
        self.last = max(self.last, other.last)

    def quantile_ms(self, share: float) -> float | None:
        """Return the milliseconds within which `share` of the answers came; None where none was counted."""
        left = share * sum(self.latency.values())
        for number, count in sorted(self.latency.items()):
            left -= count
            if left <= 0:
                return float(_GROWTH ** (number + 0.5))
        return None


class Ledger(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    variants: Annotated[dict[str, Tally], Field(max_length=_MOST_VARIANTS)] = Field(default_factory=dict)


class Stats:
    """Counts in memory until `flush`; safe from any thread."""

    def __init__(self, home: Path) -> None:
        self._path = home / STATS_FILE
        self._lock = threading.Lock()
        self._counted: dict[str, Tally] = {}
        self._complained = False
        self._complaint = ""

    def shown(self, variant: str, total_ms: float) -> None:
        """Count a suggestion that was shown, and the milliseconds that it took; one that is not finite is left out."""
        with self._lock:
            tally = self._tally(variant)
            tally.shown += 1
            if math.isfinite(total_ms):
                number = _class_of(total_ms)
                tally.latency[number] = tally.latency.get(number, 0) + 1

    def accepted(self, variant: str) -> None:
        """Count a suggestion that was accepted."""
        with self._lock:
            self._tally(variant).accepted += 1

    def flush(self) -> bool:
        """Add what was counted to the file; tell whether that could be done (else it is kept for the next time).

        A file that cannot be read, as that of a newer version, is never overwritten: it is put aside under
        `UNREADABLE_FILE`. Where that is taken, nothing is written. `complaint` says either.
        """
        with self._lock:
            counted, self._counted = self._counted, {}
        if not counted:
            return True
        try:
            private_folder(self._path.parent)
            with FileLock(str(self._path) + ".lock", timeout=_LOCK_SECONDS, mode=0o600):
                ledger = self._ledger()
                for variant, tally in counted.items():
                    ledger.variants.setdefault(variant, Tally()).add(tally)
                latest = sorted(ledger.variants.items(), key=lambda item: item[1].last)[-_MOST_VARIANTS:]
                write_atomically(self._path, Ledger(variants=dict(latest)).model_dump_json().encode())
        except (OSError, WarmlineError, LockTimeout):
            with self._lock:
                for variant, tally in counted.items():
                    self._counted.setdefault(variant, Tally()).add(tally)
            return False
        return True

    def complaint(self) -> str:
        """Say what is wrong with the file, once; else empty."""
        text, self._complaint = self._complaint, ""
        return text

    def _ledger(self) -> Ledger:
        """Read the file to add to it; raises `OSError` or `WarmlineError` where it must not be written."""
        try:
            return _read(self._path)
        except ValidationError:
            aside = self._path.with_name(UNREADABLE_FILE)
            taken = os.path.lexists(aside)
            self._complain(
                f"{STATS_FILE} cannot be read; "
                + (f"nothing is counted until {aside.name} is moved away" if taken else f"it was renamed {aside.name}")
            )
            if taken:
                raise FileExistsError(str(aside)) from None
            self._path.rename(aside)
            return Ledger()
        except (OSError, WarmlineError) as error:
            self._complain(f"nothing is counted: {STATS_FILE}: {error}")
            raise

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained, self._complaint = True, text

    def _tally(self, variant: str) -> Tally:
        now = time.time()
        tally = self._counted.setdefault(variant, Tally(first=now))
        tally.last = now
        return tally


def load(home: Path) -> Ledger:
    """Read what was counted; nothing where there is no file, or one that cannot be read as such."""
    try:
        return _read(home / STATS_FILE)
    except (WarmlineError, OSError, ValidationError):
        return Ledger()


def summary(ledger: Ledger) -> list[dict[str, Any]]:
    """Give what was counted as JSON data, the variant that was used last first; times in milliseconds."""
    variants = sorted(ledger.variants.items(), key=lambda item: -item[1].last)
    return [{"variant": name, **_row(tally)} for name, tally in variants]


def forget(home: Path) -> None:
    """Remove all that was counted; raises `OSError`."""
    with FileLock(str(home / STATS_FILE) + ".lock", timeout=_LOCK_SECONDS, mode=0o600):
        for name in (STATS_FILE, UNREADABLE_FILE):
            (home / name).unlink(missing_ok=True)


def _row(tally: Tally) -> dict[str, Any]:
    median, most = tally.quantile_ms(0.5), tally.quantile_ms(0.95)
    return {
        "shown": tally.shown,
        "accepted": tally.accepted,
        "acceptance": round(tally.accepted / tally.shown, 4) if tally.shown else None,
        "median_ms": None if median is None else round(median, 1),
        "p95_ms": None if most is None else round(most, 1),
        "first": tally.first,
        "last": tally.last,
    }


def _read(path: Path) -> Ledger:
    """Read the file, if there is one; raises `ValidationError`, `OSError`, and `WarmlineError` for what is no file."""
    if not os.path.lexists(path):
        return Ledger()
    with open_regular(path) as fd:
        return Ledger.model_validate_json(os.pread(fd, _MOST_BYTES, 0))


def _class_of(milliseconds: float) -> int:
    return min(_CLASSES - 1, int(math.log(milliseconds, _GROWTH))) if milliseconds > 1 else 0
