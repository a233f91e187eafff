"""How long a person waits for commands that look at a whole store, each as a process of its own.

    python bench/commands.py [--variants 1000] [--checked 50] [--runs 5] [--json]

`variant list` over 1,000 variants (target 0.3 s) and `doctor` over 50 (target 5 s), beside `warmline --version`: what
the interpreter and the command line itself take. CPU time is user and system time of the process and its children: on a
machine that is busy with other things it says more than the wall's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from registry import fill

_ENTRY = [sys.executable, "-c", "from warmline_server.cli import main; main()"]
TARGETS = {"variant list": 300.0, "doctor": 5000.0}


@dataclass(frozen=True)
class Row:
    """One command: medians in milliseconds."""

    command: str
    variants: int
    wall_ms: float
    cpu_ms: float
    target_ms: float | None

    @property
    def met(self) -> bool | None:
        """Whether it took no longer than it may."""
        return None if self.target_ms is None else self.wall_ms <= self.target_ms


def measure(command: str, variants: int, home: Path, runs: int) -> Row:
    """Run a command several times; the first run, which fills caches, does not count."""
    environment = os.environ | {"WARMLINE_HOME": str(home), "WARMLINE_RUNTIME_DIR": str(home / "run")}
    walls, cpus = [], []
    for _ in range(runs + 1):
        before, began = _cpu(), time.perf_counter()
        done = subprocess.run([*_ENTRY, *command.split()], env=environment, capture_output=True)
        walls.append(1000 * (time.perf_counter() - began))
        cpus.append(1000 * (_cpu() - before))
        assert done.returncode == 0, done.stderr.decode()
    wall, cpu = (round(statistics.median(times[1:]), 1) for times in (walls, cpus))
    return Row(command, variants, wall, cpu, TARGETS.get(command))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def report(variants: int, checked: int, runs: int) -> list[Row]:
    """Measure all commands."""
    with tempfile.TemporaryDirectory(prefix="wl-") as place:
        stores = {}
        for count in {variants, checked}:
            work = Path(place) / str(count)
            work.mkdir()
            fill(work / "home", work, count)
            (work / "home").chmod(0o700)
            stores[count] = work / "home"
        return [
            measure("--version", 0, stores[checked], runs),
            measure("variant list", variants, stores[variants], runs),
            measure("doctor", checked, stores[checked], runs),
        ]


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=1000)
    parser.add_argument("--checked", type=int, default=50)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = report(options.variants, options.checked, options.runs)
    if options.json:
        print(json.dumps({"rows": [asdict(row) | {"met": row.met} for row in rows]}))
        return 0
    for row in rows:
        target = "" if row.target_ms is None else f", target {row.target_ms:.0f} ms {'met' if row.met else 'not met'}"
        print(f"{row.command:14} {row.variants:5} variants: {row.wall_ms:7.1f} ms, CPU {row.cpu_ms:7.1f} ms{target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
