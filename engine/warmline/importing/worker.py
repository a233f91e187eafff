"""The process that imports: native code may crash, hang or print here, and take nothing with it.

It is told one JSON object in its arguments, and answers in JSON lines on the descriptor that was its stdout: progress,
then the report or a typed error. It ends when its stdin does, for whoever started it is gone then.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..errors import WarmlineError

MODEL: Final = "openvino_model.xml"
_KEPT: Final = (
    "openvino_tokenizer.xml",
    "openvino_tokenizer.bin",
    "openvino_detokenizer.xml",
    "openvino_detokenizer.bin",
)
_LINKED: Final = "source.gguf"


def main() -> None:
    """Import as `sys.argv` says (see `process.import_gguf`, which starts this)."""
    job = json.loads(sys.argv[1])
    faulthandler.dump_traceback_later(float(job["seconds"]), exit=True)  # native code that hangs cannot prevent this
    answers = os.dup(1)
    os.dup2(2, 1)  # native code prints to stdout
    threading.Thread(target=end_with_parent, daemon=True).start()

    def answer(data: dict[str, Any]) -> None:
        os.write(answers, json.dumps(data).encode() + b"\n")

    try:
        answer({"report": _import(job, answer)})
    except WarmlineError as error:
        answer({"error": error.to_dict()})
    os._exit(0)  # whatever native code does at its end is of no interest


def end_with_parent() -> None:
    """End this process when its stdin ends; to be run in a thread."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _import(job: dict[str, Any], answer: Any) -> dict[str, Any]:
    import openvino as ov

    from ..artifacts.gguf_bytes import opened
    from ..artifacts.openvino_ir import matmul_name, plan_import
    from ..backends.llama import LlamaBackend
    from ..digests import DigestCache
    from ..validation import read_base
    from .facts_files import write_facts
    from .forms import Scratch
    from .graph import check_kept, embedding_input, measure, named_matmuls, repair
    from .marks import mark
    from .network import repair_network
    from .weights import GGUFWeights

    source, label, precision = Path(job["source"]), job["label"], job["precision"]
    raw, out = Path(job["work"]) / "raw", Path(job["out"])
    raw.mkdir(mode=0o700)
    out.mkdir(mode=0o700)
    header = read_base(source, label=label)
    plan = plan_import(header)
    total = 3 * sum(weight.tensor.nbytes for weight in plan.matmuls)
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        answer({"progress": [done, total]})

    _read(source, raw, label)
    told(total // 3)
    with opened(source, label) as (read_at, _):
        weights = GGUFWeights(read_at, label)
        core = ov.Core()
        model = core.read_model(raw / MODEL)
        repair_network(model, plan, header, weights)
        scratch = Scratch(Path(job["work"]) / "scratch")
        read = repair(model, plan, weights, precision, scratch, told)
        marks = mark(model, job["digest"], precision, plan, read)
        ov.save_model(model, out / MODEL, compress_to_fp16=False)
        del model
        saved = core.read_model(out / MODEL)
        nodes = named_matmuls(saved)
        kept = {}
        for weight in plan.matmuls:
            node = nodes[matmul_name(weight.module)].input_value(1).get_node()
            kept[weight.module] = measure(node, weight, weights, told)
            check_kept(weight, kept[weight.module], precision, label)
        if not plan.tied:
            looked_up = embedding_input(saved, plan, label).get_source_output().get_node()
            found = measure(looked_up, plan.embedding, weights, lambda count: None)
            check_kept(plan.embedding, found, precision, label)
    for name in _KEPT:
        os.replace(raw / name, out / name)
    backend = LlamaBackend(DigestCache())
    write_facts(out, header, backend.facts(source, job["digest"]))
    backend.close()
    return {
        "marks": marks,
        "layers": {
            weight.module: {
                "tensor": weight.tensor.name,
                "type": weight.tensor.dtype,
                "read": asdict(read[weight.module]),
                "kept": asdict(kept[weight.module]),
            }
            for weight in plan.matmuls
        },
    }


def _read(source: Path, raw: Path, label: str) -> None:
    """Have GenAI's reader write its network into a folder: it writes beside whatever it is given."""
    import openvino_genai

    from ..artifacts.openvino_ir import import_error

    os.symlink(source, raw / _LINKED)
    try:
        openvino_genai.LLMPipeline(str(raw / _LINKED), "CPU", enable_save_ov_model=True)
    except Exception as error:  # whatever native code throws: out_of_range arrives as IndexError
        words = " ".join(str(error).split())[-300:]
        remedy = "Use another quantisation of this base (Q4_0, Q4_K_M, Q8_0, F16), or run it on llama.cpp"
        raise import_error("reader", f"OpenVINO GenAI cannot read it: {words}", label, None, remedy) from None


if __name__ == "__main__":
    main()
