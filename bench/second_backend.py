"""The same variants on OpenVINO GenAI and on llama.cpp: first token, decode rate, memory, and what an adapter does.

    python bench/second_backend.py --openvino-model FOLDER [--model GGUF] [--rounds 5] [--tokens 600] [--quick] [--json]

FOLDER is the same base, made by `warmline model add BASE.gguf --backend openvino`. Each side runs in a process of its
own, both with the same number of threads, greedily, through the backends as the engine uses them:

- *cold*: a prompt that was never seen, until its first token is picked; *warm*: the same prompt again;
- *decode*: tokens a second of the 32 that follow;
- *memory*: resident MiB of the process beside what it had before the base: with the bare base warm, and with a second
  identity (acme-style) warm beside it. llama.cpp shares the weights between the two, OpenVINO has them twice;
- *load*: seconds until an identity's context is there, weights included.

*effect*: over 20 prompts, what acme-style changes of the log-probability of each token that really follows, on both
sides: their correlation, and the slope of OpenVINO's over llama.cpp's (1 when a scale means the same). *Top token*: the
share of prompts whose next token is the same on both sides, for the base and for the variant.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import Spread, Surroundings, Target
from hosted import ACME, BenchError, demo_model, run_and_show, source_text
from rich.console import Console
from rich.table import Table
from warmline.backends.base import (
    Abort,
    AdapterOnDisk,
    BaseModelHandle,
    ContextConfig,
    Session,
    default_threads,
)
from warmline.digests import DigestCache
from warmline.store.folders import digest_folder
from warmline.variant import Sampling

N_CTX = 1024
DECODED = 32
PROMPTS, EACH = 20, 40
MODULES = ("argparse", "ast", "calendar", "csv", "textwrap")
CORRELATION = 0.95
SIDES = ("llama.cpp", "openvino")


def resident_mib() -> float:
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) / 1024 for row in rows if row.startswith("VmRSS"))


class Side:
    """One backend with its base loaded, its adapter, and how its contexts are made."""

    def __init__(self, name: str, model: Path, digests: DigestCache) -> None:
        self.name, self.model = name, model
        self.handle: BaseModelHandle
        if name == "openvino":
            from warmline.backends.openvino import OpenVinoBackend
            from warmline.backends.openvino_native import PRECISE

            backend = OpenVinoBackend(digests, warm_pipelines=2)
            self.handle = backend.load(model, digest_folder(model, digests.digest_descriptor)[0])
            weights = ACME.with_name("adapter_model.safetensors")
            config = json.loads(ACME.with_name("adapter_config.json").read_text())
            self.scale = config["lora_alpha"] / config["r"]
            self.config = ContextConfig(n_ctx=N_CTX, properties=tuple(PRECISE.items()))
        else:
            from warmline.backends.llama import LlamaBackend

            weights, self.scale = ACME, 1.0
            self.handle = LlamaBackend(digests).load(model, digests.digest(model))
            self.config = ContextConfig(n_ctx=N_CTX)
        self.adapter = AdapterOnDisk("acme", weights, digests.digest(weights), self.scale)

    def open(self, *adapters: AdapterOnDisk) -> Session:
        return self.handle.open_session(adapters, self.config)

    def prompts(self) -> list[list[int]]:
        """Return the beginnings of the prompts of *effect*: the same tokens on both sides."""
        texts = [source_text(module) for module in MODULES]
        tokens = [self.handle.tokenize(text) for text in texts]
        starts = range(0, PROMPTS // len(tokens))
        return [one[300 * start + 50 :][:EACH] for one in tokens for start in starts]

    def changes(self, sessions: tuple[Session, Session], prompts: list[list[int]]) -> list[float]:
        """Return what the adapter changes of the log-probability of each token but each prompt's first."""
        if self.name == "openvino":  # its own cache would leave out the tokens that it has
            return self._native_changes(prompts)
        plain, adapted = ([self.log_probabilities(session, one) for one in prompts] for session in sessions)
        return [b - a for row, other in zip(plain, adapted, strict=True) for a, b in zip(row, other, strict=True)]

    def _native_changes(self, prompts: list[list[int]]) -> list[float]:
        from warmline.backends.openvino_effect import log_probabilities
        from warmline.backends.openvino_pipeline import Recipe, construct, load_adapter

        native = load_adapter(self.adapter)
        recipe = Recipe(self.model, self.handle.digest, (), self.config, prefix_caching=False)
        pipeline = construct(recipe, [(native, self.scale)])
        adapted = [log_probabilities(pipeline, one, [(native, self.scale)]) for one in prompts]
        plain = [log_probabilities(pipeline, one, [(native, 0.0)]) for one in prompts]
        return [b - a for row, other in zip(plain, adapted, strict=True) for a, b in zip(row, other, strict=True)]

    def log_probabilities(self, session: Session, tokens: list[int]) -> list[float]:
        """Return the log-probability of each token but the first, on llama.cpp."""
        found = []
        session.prefill(tokens[:1], Abort()).run()
        for token in tokens[1:]:
            logits = session.logits().astype(np.float64)
            top = logits.max()
            found.append(float(logits[token] - top - math.log(np.exp(logits - top).sum())))
            session.decode(token, Abort())
        return found


def first_token(session: Session, prompt: list[int]) -> tuple[float, int, Any]:
    """Return milliseconds until the first token, the token, and the sampler that goes on."""
    began = time.perf_counter()
    sampler = session.new_sampler(Sampling())
    session.prefill(prompt, Abort()).run()
    token = sampler.pick()
    return (time.perf_counter() - began) * 1000, token, sampler


def measure(name: str, model: Path, rounds: int, tokens: int) -> dict[str, Any]:
    """Measure one side in this process."""
    digests = DigestCache()
    before = resident_mib()
    began = time.perf_counter()
    side = Side(name, model, digests)
    base = side.open()
    load = [time.perf_counter() - began]
    text = side.handle.tokenize(source_text("argparse"))
    cold, warm, rate = [], [], []
    for number in range(rounds):
        prompt = text[number * 97 :][:tokens]
        for times in (cold, warm):
            ms, token, sampler = first_token(base, prompt)
            times.append(ms)
            began = time.perf_counter()
            for _ in range(DECODED if times is warm else 0):
                base.decode(token, Abort())
                token = sampler.pick()
            sampler.close()
        rate.append(DECODED / (time.perf_counter() - began))
    memory = [resident_mib() - before]
    began = time.perf_counter()
    adapted = side.open(side.adapter)
    load.append(time.perf_counter() - began)
    first_token(adapted, text[:tokens])[2].close()
    memory.append(resident_mib() - before)
    found = {
        "cold_ms": _spread(cold),
        "warm_ms": _spread(warm),
        "tokens_per_s": _spread(rate),
        "load_s": [round(one, 2) for one in load],
        "memory_mib": [round(one) for one in memory],
    }
    prompts = side.prompts()
    top = []
    for session in (base, adapted):
        row = []
        for prompt in prompts:
            _, token, sampler = first_token(session, prompt)
            sampler.close()
            row.append(token)
        top.append(row)
    changes = side.changes((base, adapted), prompts)
    found |= {"top": top, "changes": changes}
    return found


def _spread(values: list[float]) -> dict[str, float]:
    spread = Spread.of(values)
    return {"median": spread.median, "p95": spread.p95}


async def run(options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """Measure both sides, one after the other, and compare what the adapter does."""
    surroundings = Surroundings()
    if options.openvino_model is None or not (options.openvino_model / "openvino_model.xml").is_file():
        raise BenchError("name the base's OpenVINO folder: warmline model add BASE.gguf --backend openvino")
    models = {"llama.cpp": options.model or demo_model(), "openvino": options.openvino_model}
    sides = {}
    for name in SIDES:
        say(name)
        arguments = [__file__, "--side", name, "--rounds", str(options.rounds), "--tokens", str(options.tokens)]
        paths = ["--model", str(models[name])]
        child = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, *paths, *(["--quick"] if options.quick else []), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
        if child.returncode:
            raise BenchError(f"the side {name} ended with {child.returncode}")
        sides[name] = json.loads(out)
    changes = [np.array(sides[name].pop("changes")) for name in SIDES]
    tops = [sides[name].pop("top") for name in SIDES]
    agreement = [sum(a == b for a, b in zip(*rows, strict=True)) / len(rows[0]) for rows in zip(*tops, strict=True)]
    effect = {
        "tokens": len(changes[0]),
        "correlation": round(float(np.corrcoef(*changes)[0, 1]), 4),
        "slope": round(float(np.polyfit(changes[0], changes[1], 1)[0]), 4),
        "largest": round(float(abs(changes[0]).max()), 2),
        "top_token_base": agreement[0],
        "top_token_variant": agreement[1],
    }
    # A target is an upper limit: what is missing to full correlation.
    target = Target("missing to full correlation of the effect", round(1 - effect["correlation"], 4), 1 - CORRELATION)
    return {
        "bench": "second_backend",
        "model": models["llama.cpp"].name,
        "threads": default_threads(),
        "n_ctx": N_CTX,
        "n_predict": DECODED,
        "sides": sides,
        "effect": effect,
        "targets": [target.as_json()],
        **surroundings.as_json(),
    }


def show(report: dict[str, Any], console: Console) -> None:
    """Print both sides beside each other."""
    table = Table("", *SIDES, title="Medians (p95); memory and load with one identity warm, and with two")
    rows = (("cold first token, ms", "cold_ms"), ("warm first token, ms", "warm_ms"), ("tokens/s", "tokens_per_s"))
    for words, key in rows:
        cells = (side[key] for side in report["sides"].values())
        table.add_row(words, *(f"{each['median']:.1f} ({each['p95']:.1f})" for each in cells))
    for words, key in (("memory, MiB", "memory_mib"), ("load, s", "load_s")):
        table.add_row(words, *(" then ".join(map(str, side[key])) for side in report["sides"].values()))
    console.print(table)
    effect = report["effect"]
    console.print(
        f"What acme-style changes, {effect['tokens']} tokens of {PROMPTS} prompts: "
        f"correlation {effect['correlation']}, slope {effect['slope']}, largest {effect['largest']}; "
        f"same top token: base {effect['top_token_base']:.0%}, variant {effect['top_token_variant']:.0%}",
        highlight=False,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openvino-model", type=Path, help="the base as an OpenVINO folder")
    parser.add_argument("--model", type=Path, help="the base as a GGUF file (the demo's)")
    parser.add_argument("--rounds", type=int, default=5, help="prompts, each cold and warm (5)")
    parser.add_argument("--tokens", type=int, default=600, help="length of a prompt (600)")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.tokens = 1, 150
    if options.side:
        print(json.dumps(measure(options.side, options.model, options.rounds, options.tokens)))
        return 0
    return run_and_show(options, run, show)


if __name__ == "__main__":
    sys.exit(main())
