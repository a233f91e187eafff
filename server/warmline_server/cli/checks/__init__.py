"""What `warmline doctor` looks at: one check, one row. Nothing here loads weights, and nothing here repairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One row: what was looked at, what was found, and what to do where that is not as it should be."""

    name: str
    level: Level
    message: str
    remedy: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "check": self.name,
            "level": str(self.level),
            "message": self.message,
            "remedy": self.remedy or None,
            "detail": self.detail,
        }


def ok(name: str, message: str, **detail: Any) -> Check:
    """All is well."""
    return Check(name, Level.OK, message, "", detail)


def warn(name: str, message: str, remedy: str, **detail: Any) -> Check:
    """It works, but."""
    return Check(name, Level.WARN, message, remedy, detail)


def fail(name: str, message: str, remedy: str, **detail: Any) -> Check:
    """It does not work."""
    return Check(name, Level.FAIL, message, remedy, detail)
