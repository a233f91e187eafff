"""How long the store takes to list, resolve and install, over many variants and adapters.

python bench/registry.py --variants 1000
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/support"))

# Milliseconds; the issue's own figure for a list of 1,000 variants, as a command and as a call.
TARGET_MS = 300.0


def fill(home: Path, work: Path, variants: int) -> None:
    """Make a store with one base, ten adapters, and so many variants of them."""
    from fake_backend import write_adapter, write_base
    from warmline.registry import Store

    store = Store(home)
    store.add_model(write_base(work / "base.gguf"), "base", copy=True)
    for number in range(10):
        adapter = write_adapter(work / f"a{number}.gguf", weights=bytes([number + 1]))
        store.add_adapter(adapter, f"a{number}", base="base")
    folder = home / "variants/llama"
    folder.mkdir(parents=True)
    for number in range(variants):
        data = {
            "name": f"v{number}",
            "description": "A variant among many",
            "base": {"name": "base"},
            "adapters": [{"name": f"a{number % 10}", "scale": 0.5}, {"name": f"a{(number + 1) % 10}"}],
            "profile": {"n_ctx": 4096, "sampling": {"temperature": 0.2}},
        }
        (folder / f"v{number}.json").write_text(json.dumps(data))


def median_ms(act: Callable[[], object], runs: int) -> float:
    """Time something, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return round(statistics.median(times), 2)


def report(variants: int, runs: int) -> dict[str, float | int]:
    """Measure."""
    with tempfile.TemporaryDirectory() as place:
        home, work = Path(place) / "home", Path(place)
        fill(home, work, variants)
        from warmline.registry import Store

        store = Store(home)
        script = "import os, sys; from warmline.registry import Store; from pathlib import Path; "
        script += "print(len(Store(Path(sys.argv[1])).list_variants()))"
        command = [sys.executable, "-c", script, str(home)]
        return {
            "variants": variants,
            "names_ms": median_ms(store.variants, runs),
            "list_ms": median_ms(store.list_variants, runs),
            "list_adapters_ms": median_ms(store.list_adapters, runs),
            "resolve_ms": median_ms(lambda: store.resolve("v7"), runs),
            "process_ms": median_ms(lambda: subprocess.run(command, check=True, capture_output=True), min(runs, 5)),
            "target_ms": TARGET_MS,
        }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = report(options.variants, options.runs)
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{found['variants']} variants: names {found['names_ms']} ms, list {found['list_ms']} ms, ", end="")
    print(f"resolve one {found['resolve_ms']} ms; a process of its own that lists them {found['process_ms']} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
