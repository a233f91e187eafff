"""What every bench says of its figures: spreads, targets met or not, and the machine that they come from."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class Spread:
    """Median and 95th percentile, mostly of milliseconds."""

    median: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        ordered = sorted(values)
        # The nearest-rank percentile: with few values it is the worst one.
        return cls(round(statistics.median(ordered), 2), round(ordered[-(-len(ordered) * 95 // 100) - 1], 2))


@dataclass(frozen=True)
class Target:
    """One figure that must not be above its limit."""

    what: str
    value: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}

    def show(self, console: Console) -> None:
        unit = f" {self.unit}" if self.unit else ""
        verdict = "[green]met[/]" if self.met else "[red]not met[/]"
        console.print(
            f"Target {verdict}: {self.what} {self.value:g}{unit}, at most {self.limit:g}{unit}", highlight=False
        )


class Surroundings:
    """The machine and the versions; its load when the bench began and when it ended."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]

    def as_json(self) -> dict[str, Any]:
        from warmline.backends import native

        return {
            "python": platform.python_version(),
            "llama_cpp": native.version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load_before_and_after": [round(self._load, 2), round(os.getloadavg()[0], 2)],
        }


def show_surroundings(report: dict[str, Any], console: Console) -> None:
    """Print the last line of every bench."""
    load = " to ".join(map(str, report["load_before_and_after"]))
    peer = f", llama-server {report['llama_server']}" if report.get("llama_server") else ""
    console.print(
        f"llama.cpp {report['llama_cpp']}{peer}, Python {report['python']}, {report['machine']}, load {load}",
        highlight=False,
    )
