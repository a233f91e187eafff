"""Fields of settings: what the README's table, the schema and VS Code's page say of a number."""

from __future__ import annotations

from typing import Any

from pydantic import Field


def number(default: float, least: float, most: float, unit: str, description: str, reason: str) -> Any:
    """Make a field for a number: its bounds, its unit, what it does and why its default is what it is."""
    return Field(
        default, ge=least, le=most, description=description, json_schema_extra={"unit": unit, "reason": reason}
    )
