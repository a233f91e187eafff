"""Feeds mutated GGUF and safetensors headers to our readers: no crash, no hang, memory within a cap.

Each mutation is read in a child process whose address space is limited, so that a reader that allocates what a header
claims dies there. Prints how many were accepted, and refused by which code; the peak memory; the slowest reading.

    python bench/fuzz_headers.py --count 10000 --seed 1
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "examples/adapters"
# Bytes: what the child may take over what it has when it starts, and what it may have in all.
CAP = 200 << 20
SLOW_SECONDS = 2.0
BATCH = 500


def gguf_seeds() -> list[bytes]:
    """Give a real adapter, a small made one, and a small made base."""
    import gguf_writer as w

    seeds = [(ADAPTERS / "acme-style/adapter.gguf").read_bytes()]
    pair = {
        "blk.0.attn_q.weight.lora_a": ((64, 4), w.TENSOR_F16),
        "blk.0.attn_q.weight.lora_b": ((4, 32), w.TENSOR_F16),
    }
    seeds.append(w.lora(pair))
    tokens = [w.text(f"token{i}") for i in range(300)]
    infos, data = w.laid_out(
        {"blk.0.attn_q.weight": ((64, 32), w.TENSOR_F16), "output.weight": ((64, 8), w.TENSOR_F16)}
    )
    keys = [
        w.kv_str("general.architecture", "llama"),
        w.kv("llama.context_length", w.U32, w.u32(8192)),
        w.kv_arr("tokenizer.ggml.tokens", w.STR, len(tokens), b"".join(tokens)),
        w.kv_arr("tokenizer.ggml.token_type", w.I32, 300, w.u32(1) * 300),
    ]
    seeds.append(w.gguf(keys, infos, data=data))
    return seeds


def safetensors_seeds() -> list[bytes]:
    """Give a real file and a small made one."""
    import safetensors_writer as s

    real = (ADAPTERS / "acme-style/adapter_model.safetensors").read_bytes()
    made = s.safetensors(s.lora_tensors({"model.layers.0.self_attn.q_proj": (8, 8)}), {"format": "pt"})
    return [real, made]


def mutations(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield (format, bytes), half of each format."""
    import gguf_writer as w
    import safetensors_writer as s

    rng = random.Random(seed)
    ggufs, tensors = gguf_seeds(), safetensors_seeds()
    places = [w.marks(data) for data in ggufs]
    for number in range(count):
        ops = rng.randint(1, 4)
        if number % 2:
            which = rng.randrange(len(ggufs))
            steps = [
                (
                    rng.choice(w.MUTATIONS),
                    rng.getrandbits(40),
                    rng.getrandbits(40),
                    rng.choice([*w.HUGE, rng.getrandbits(64)]),
                )
                for _ in range(ops)
            ]
            yield "gguf", w.mutate(ggufs[which], places[which], steps)
        else:
            kinds = [(rng.choice(s.TEXT_MUTATIONS), rng.getrandbits(40), rng.getrandbits(40)) for _ in range(ops)]
            yield "safetensors", s.mutate(rng.choice(tensors), kinds)


def readers() -> dict[str, Callable[[bytes], object]]:
    """Give what each format is read by: the header, and the rules that follow."""
    from warmline.artifacts.gguf import read_header
    from warmline.artifacts.lora import read_adapter
    from warmline.artifacts.safetensors import read_header as read_safetensors
    from warmline.base_rules import TOKENS, check_base

    def gguf(data: bytes) -> None:
        header = read_header(io.BytesIO(data), want_arrays=(TOKENS,), label="x.gguf")
        read_adapter(header) if header.metadata.get("general.type") == "adapter" else check_base(header)

    return {"gguf": gguf, "safetensors": lambda data: read_safetensors(io.BytesIO(data), label="x.safetensors")}


def child(seed: int, count: int) -> None:
    """Read so many mutations and print one JSON line at the end; runs in a process of its own."""
    from warmline.errors import ArtifactError

    found = readers()
    counts: Counter[str] = Counter()
    slowest = (0.0, -1)
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (address_space + CAP, address_space + CAP))
    for number, (kind, data) in enumerate(mutations(seed, count)):
        start = time.perf_counter()
        try:
            found[kind](data)
            outcome = "accepted"
        except ArtifactError as error:
            outcome = error.code
        slowest = max(slowest, (time.perf_counter() - start, number))
        counts[f"{kind} {outcome}"] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(json.dumps({"counts": counts, "peak": peak, "slowest": slowest}))


def run(seed: int, count: int) -> dict[str, object]:
    """Read `count` mutations in batches; return the report, in which `failures` is empty where all went well."""
    counts: Counter[str] = Counter()
    peak, slowest, failures = 0, (0.0, "none"), []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/support"), os.environ.get("PYTHONPATH", "")])}
    for batch in range(-(-count // BATCH)):
        size = min(BATCH, count - batch * BATCH)
        command = [sys.executable, __file__, "--child", str(seed * 1_000_003 + batch), str(size)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            failures.append(f"batch {batch}: no end within 300 s")
            continue
        if done.returncode:
            failures.append(f"batch {batch}: exit {done.returncode}: {done.stderr[-600:]}")
            continue
        report = json.loads(done.stdout)
        counts.update(report["counts"])
        peak = max(peak, report["peak"])
        seconds, number = report["slowest"]
        slowest = max(slowest, (seconds, f"seed {seed}, batch {batch}, number {number}"))
    if peak > CAP:
        failures.append(f"peak memory {peak >> 20} MiB is over {CAP >> 20} MiB")
    if slowest[0] > SLOW_SECONDS:
        failures.append(f"{slowest[1]} took {slowest[0]:.1f} s")
    return {
        "seed": seed,
        "count": sum(counts.values()),
        "accepted": sum(number for name, number in counts.items() if name.endswith(" accepted")),
        "by_code": dict(sorted(counts.items(), key=lambda item: -item[1])),
        "peak_mib": round(peak / (1 << 20), 1),
        "slowest_ms": round(slowest[0] * 1000, 2),
        "slowest": slowest[1],
        "failures": failures,
    }


def main() -> int:
    """Run the bench; the exit code is 1 where something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="mutated headers, half of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--child", nargs=2, type=int, metavar=("SEED", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    report = run(options.seed, options.count)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        by_code = report["by_code"]
        assert isinstance(by_code, dict)
        for name, number in by_code.items():
            print(f"{number:7}  {name}")
        print(f"{report['count']} read, {report['accepted']} accepted; peak {report['peak_mib']} MiB; ", end="")
        print(f"slowest {report['slowest_ms']} ms ({report['slowest']})")
    for failure in report["failures"]:  # type: ignore[attr-defined]
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
