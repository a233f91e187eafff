"""Whether an imported base predicts what llama.cpp predicts from the same GGUF: teacher-forced, on code.

    python bench/agreement.py [--texts 5] [--tokens 400] [--json]
    python bench/agreement.py --sample 12 [--seed 2026]     # modules of the standard library, drawn by chance

Each text of tests/cases/agreement.json, or each module that was drawn, without its docstrings and comments, is fed
token by token; counted is how often the likeliest next token is the same, and how well the text is predicted
(cross-entropy, nats a token). Rows are the import's forms, and what GenAI's reader gives without repair; each under the
precise plugin settings (INFERENCE_PRECISION_HINT=f32, DYNAMIC_QUANTIZATION_GROUP_SIZE=0, KV_CACHE_PRECISION=f16) and
under the plugin's defaults. The peers are llama.cpp on the GGUF, and llama.cpp on the same weights written as float32:
there it does not round activations to 8 bits, so what is left is the import's own doing.

Target: `exact` under the precise settings differs from llama.cpp on the GGUF for at most 3 % of the tokens.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import json
import random
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import Surroundings, Target, show_surroundings
from hosted import demo_model
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from warmline.backends.base import Abort, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.backends.native import captured_log, llama
from warmline.digests import DigestCache
from warmline.importing.process import import_gguf

LIMIT = 0.03
TEXTS = Path(__file__).resolve().parents[1] / "tests/cases/agreement.json"
_CHARACTERS = 6000  # of each module that is drawn: more than enough tokens
SETTINGS: dict[str, dict[str, str]] = {
    "precise": {
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
        "KV_CACHE_PRECISION": "f16",
    },
    "defaults": {},
}
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One model under one setting: agreement from 0 to 1, cross-entropy in nats, bytes of its weights."""

    model: str
    settings: str
    nbytes: int
    same_as_gguf: float
    same_as_f32: float
    cross_entropy: float


def by_llama(path: Path, texts: list[str], count: int) -> tuple[list[list[int]], list[Logits]]:
    """Give each text's tokens and llama.cpp's logits after each of them."""
    digests = DigestCache()
    backend = LlamaBackend(digests)
    model = backend.load(path, digests.digest(path))
    tokens = [model.tokenize(text)[:count] for text in texts]
    found = []
    for each in tokens:
        session = model.open_session([], ContextConfig(n_ctx=count + 16))
        logits = []
        for end in range(1, len(each) + 1):
            session.prefill(each[:end], Abort()).run()
            logits.append(session.logits())
        session.close()
        found.append(np.array(logits))
    backend.close()
    return tokens, found


def by_openvino(path: Path, tokens: list[list[int]], settings: dict[str, str]) -> list[Logits]:
    """Give the logits after each token, from one pass over each text."""
    import openvino as ov

    model = ov.Core().compile_model(path, "CPU", settings)
    found = []
    for each in tokens:
        n = len(each)
        inputs = {"input_ids": np.array([each], np.int64), "beam_idx": np.zeros(1, np.int32)}
        inputs |= {"attention_mask": np.ones((1, n), np.int64), "position_ids": np.arange(n)[None]}
        found.append(np.array(model.create_infer_request().infer(inputs)[0][0]))
    return found


def as_f32(source: Path, target: Path) -> None:
    """Write the same weights as float32, by llama.cpp itself."""
    lib = llama()
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = 0, True
    with captured_log():
        failed = lib.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if failed:
        sys.exit("llama.cpp cannot write the weights as float32")


def cross_entropy(logits: list[Logits], tokens: list[list[int]]) -> float:
    """Nats a token that a text's own next tokens cost, over all texts."""
    costs = []
    for each, ids in zip(logits, tokens, strict=True):
        rows = each[:-1].astype(np.float64)
        high = rows.max(axis=-1, keepdims=True)
        total = np.log(np.exp(rows - high).sum(axis=-1)) + high[:, 0]
        costs.append(total - rows[np.arange(len(rows)), ids[1:]])
    return float(np.concatenate(costs).mean())


def agreement(one: list[Logits], other: list[Logits]) -> float:
    """How often the likeliest next token is the same, from 0 to 1."""
    return float(np.concatenate([a.argmax(-1) == b.argmax(-1) for a, b in zip(one, other, strict=True)]).mean())


def measured(texts: list[str], count: int) -> list[Row]:
    """Import in every form, and compare."""
    source = Path(demo_model())
    digest = DigestCache().digest(source)
    tokens, gguf = by_llama(source, texts, count)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        as_f32(source, folder / "f32.gguf")
        _, f32 = by_llama(folder / "f32.gguf", texts, count)
        (folder / "f32.gguf").unlink()
        same = agreement(gguf, f32)
        rows.append(Row("llama.cpp", "GGUF", source.stat().st_size, 1.0, same, cross_entropy(gguf, tokens)))
        rows.append(Row("llama.cpp", "float32", 0, same, 1.0, cross_entropy(f32, tokens)))
        models = {}
        for form in ("exact", "compact"):
            work = folder / form
            work.mkdir()
            import_gguf(source, work / "out", work, label=str(source), digest=digest, precision=form, seconds=600)
            models[form] = work / "out/openvino_model.xml"
        models["not repaired"] = folder / "exact/raw/openvino_model.xml"
        for form, path in models.items():
            for settings, properties in SETTINGS.items():
                found = by_openvino(path, tokens, properties)
                nbytes = path.with_suffix(".bin").stat().st_size
                alike = agreement(found, gguf), agreement(found, f32)
                rows.append(Row(form, settings, nbytes, *alike, cross_entropy(found, tokens)))
    return rows


def drawn(count: int, seed: int) -> list[str]:
    """Give the code of modules of the standard library: what is said about it in prose is left out."""
    library = Path(sysconfig.get_paths()["stdlib"])
    modules = sorted(path for path in library.glob("*.py") if path.stat().st_size > 8000)
    return [_code(path.read_text("utf-8")) for path in random.Random(seed).sample(modules, count)]


def _code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)[:_CHARACTERS]


def target_of(rows: list[Row]) -> Target:
    exact = next(row for row in rows if (row.model, row.settings) == ("exact", "precise"))
    return Target("exact, precise: tokens that differ from llama.cpp", round(1 - exact.same_as_gguf, 4), LIMIT)


def show(report: dict[str, Any], rows: list[Row], console: Console) -> None:
    table = Table(title=f"Next tokens as llama.cpp has them, {report['texts']} x {report['tokens']} tokens of code")
    for column in ("model", "settings", "weights", "same as llama.cpp", "same as its float32", "cross-entropy"):
        table.add_column(column, justify="left" if column in ("model", "settings") else "right")
    for row in rows:
        size = f"{row.nbytes / 1e6:.0f} MB" if row.nbytes else ""
        shares = (f"{100 * share:.2f} %" for share in (row.same_as_gguf, row.same_as_f32))
        table.add_row(row.model, row.settings, size, *shares, f"{row.cross_entropy:.3f}")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=5)
    parser.add_argument("--sample", type=int, help="in their place so many modules of the standard library")
    parser.add_argument("--seed", type=int, default=2026, help="draws them (2026)")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    surroundings = Surroundings()
    handed = json.loads(TEXTS.read_text("utf-8"))[: options.texts]
    texts = drawn(options.sample, options.seed) if options.sample else handed
    rows = measured(texts, options.tokens)
    target = target_of(rows)
    report = {"texts": len(texts), "tokens": options.tokens, **surroundings.as_json()}
    if options.json:
        print(json.dumps({**report, "rows": [asdict(row) for row in rows], "targets": [target.as_json()]}))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120)
        show(report, rows, console)
        target.show(console)
        show_surroundings(report, console)
    return 0 if target.met else 1


if __name__ == "__main__":
    sys.exit(main())
