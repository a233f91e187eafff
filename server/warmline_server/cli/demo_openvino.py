"""The demo's second half: the same variants on OpenVINO GenAI, beside what llama.cpp said."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .output import Output, cell

if TYPE_CHECKING:
    from rich.table import Table
    from warmline.variant import ResolvedVariant

    from .shipped import Prompt

_NAMES: Final = {"llama": "llama.cpp", "openvino": "OpenVINO"}
_WARM: Final = "type"
_IMPORTED: Final = "demo-openvino-"


@dataclass(frozen=True, slots=True)
class Answers:
    """What one backend said: the suggestion for the file as opened, and the times to a first token, cold and warm."""

    prompt: str
    variant: str
    backend: str
    text: str
    cold_ms: float
    warm_ms: float
    reused: str


def base_folder(output: Output, source: Path) -> Path:
    """Return the demo's base as an OpenVINO model, imported into the store's cache the first time."""
    from warmline.digests import DigestCache, private_folder
    from warmline.importing.marks import IMPORTER_VERSION
    from warmline.importing.process import import_gguf, time_limit
    from warmline.registry import warmline_home

    home = warmline_home()
    digest = DigestCache(home / "cache" / "digests.json").digest(source)
    target = home / "cache" / f"{_IMPORTED}{digest.removeprefix('sha256:')[:16]}-{IMPORTER_VERSION}"
    if not target.exists():
        private_folder(target.parent)
        output.note(cell("Importing the base for OpenVINO: once, some 15 s; `warmline cache purge` removes it", "dim"))
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix="demo-"))
        try:
            seconds = time_limit(source.stat().st_size)
            with output.working("Importing the base for OpenVINO"):
                import_gguf(
                    source, work / "out", work, label=str(source), digest=digest, precision="exact", seconds=seconds
                )
            (work / "out").rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def imported(home: Path) -> list[Path]:
    """List the bases that the demo has imported, the folders of `base_folder`."""
    return sorted((home / "cache").glob(f"{_IMPORTED}*"))


def on_openvino(variant: ResolvedVariant, folder: Path) -> ResolvedVariant:
    """Return a shipped variant on the imported base: its adapters are the PEFT folders that the GGUF ones came from."""
    base = variant.base.model_copy(update={"path": folder, "digest": None, "workspace": False})
    adapters = tuple(
        one.model_copy(update={"path": one.path.parent, "digest": None, "workspace": False}) for one in variant.adapters
    )
    return variant.model_copy(update={"backend": "openvino", "base": base, "adapters": adapters})


async def run(output: Output, llama: list[Any]) -> list[Answers]:
    """Ask on OpenVINO what was asked of llama.cpp (`demo._Run`s); return both backends' answers.

    One variant after another: each has its own pipeline, and one of them at a time stays in memory.
    """
    from . import shipped
    from .complete import ask
    from .selection import select
    from .session import engine

    examples = shipped.folder()
    asked = {(run.variant, run.prompt.name, run.step): run for run in llama}
    names = list(dict.fromkeys(run.variant for run in llama))
    variants = {name: select(examples, name).variant for name in names}
    folder = base_folder(output, variants[names[0]].base.path)
    found = []
    async with engine(output, shipped.approved(examples)) as client:
        for name in names:
            variant = on_openvino(variants[name], folder)
            with output.working(f"Loading {name} on OpenVINO"):
                await client.load(variant)
            for prompt in (one for one in shipped.prompts(examples) if (name, one.name, _WARM) in asked):
                times = {}
                for step in ("open", _WARM):
                    of = asked[name, prompt.name, step]
                    line, column = of.cursor
                    with output.working(f"{prompt.file}: {name} on OpenVINO"):
                        times[step] = await ask(client, variant, of.document, line, column, client="demo")
                found += [
                    _answers(prompt, name, backend, opened, typed)
                    for backend, opened, typed in (
                        (
                            "llama",
                            asked[name, prompt.name, "open"].completion,
                            asked[name, prompt.name, _WARM].completion,
                        ),
                        ("openvino", times["open"], times[_WARM]),
                    )
                ]
    return found


def _answers(prompt: Prompt, variant: str, backend: str, opened: Any, typed: Any) -> Answers:
    reused = f"{typed.started.reused_tokens}{'*' if typed.started.reused_estimated else ''}" if typed.started else "0"
    whole = typed.started.prompt_tokens if typed.started else 0
    return Answers(
        prompt=f"{prompt.file}:{prompt.at}",
        variant=variant,
        backend=backend,
        text=opened.text or f"(nothing: {opened.reason})",
        cold_ms=opened.started.ttft_ms if opened.started else 0.0,
        warm_ms=typed.started.ttft_ms if typed.started else 0.0,
        reused=f"{reused} of {whole}",
    )


def table(answers: list[Answers]) -> Table:
    """Show both backends' answers, each pair under the other."""
    from rich import box
    from rich.table import Table

    from .output import visible

    made = Table("", "variant", "backend", "cold", "warm", "reused", "suggests", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in made.columns[3:6]:
        column.justify = "right"
        column.no_wrap = True
    for answer in answers:
        first = answer.text.strip("\n").split("\n")[0]
        made.add_row(
            cell(answer.prompt),
            cell(answer.variant),
            cell(_NAMES[answer.backend]),
            cell(f"{answer.cold_ms:.0f} ms"),
            cell(f"{answer.warm_ms:.0f} ms"),
            cell(answer.reused),
            cell(visible(first), "green"),
        )
    return made


def show(output: Output, answers: list[Answers]) -> None:
    """Print the comparison."""
    output.table(cell("The same on both backends, time to a first token", "bold"), table(answers))
    output.note(cell("* estimated: OpenVINO does not tell what it reused, and it was that much at least", "dim"))
