"""`warmline demo`: the shipped examples completed by a base and by its variants, cold and warm, side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .output import Output, cell, visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text
    from warmline.host.wire import VariantStatus

    from warmline_server.completion import Completion

    from .document import Document
    from .shipped import Prompt

_STEPS: Final = {"open": "file opened", "type": "one more key", "return": "back to it"}
# How warm the KV was, for people; the codes are those of `wire.Started.reason` and of `Identity`.
_REASONS: Final = {"warm": "all there", "cold": "nothing there", "evicted": "had to make room"}
_FIELDS: Final = {
    "effective_scale": "scale",
    "template": "chat template",
    "bos": "first token",
    "fim": "prompt format",
}
_PIPED: Final = 110
_FOLD: Final = "  \u21b3 "


@dataclass(frozen=True, slots=True)
class _Run:
    """One completion of the demo; `step` is a key of `_STEPS`."""

    prompt: Prompt
    step: str
    variant: str
    document: Document
    cursor: tuple[int, int]
    completion: Completion

    def as_json(self) -> dict[str, Any]:
        from .complete import result

        values = result(self.variant, self.completion)
        # What the backend kept says it, not what the demo had in mind; a few tokens that two files share are not it.
        kv = "warm" if 2 * values["reused_tokens"] >= values["prompt_tokens"] > 0 else "cold"
        return {"prompt": self.prompt.name, "file": self.prompt.file, "step": self.step, "kv": kv, **values}


def command(
    llama_only: Annotated[bool, typer.Option("--llama-only", help="Leave out OpenVINO, although it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """Complete the shipped examples with a base and its variants.

    Shows texts side by side, times, reused tokens and where everything came from. For each prompt every variant
    completes the file as it is opened, then after one more key, and at last the first variant is asked again (A, B,
    A). For people, the same variants are then asked on OpenVINO, if it is installed; its base is imported the first
    time, which takes some 15 s. JSON: a list of runs of llama.cpp as of `complete --json`, with `prompt`, `file`,
    `step` and `kv`, which is `warm` when at least half of the prompt's tokens were reused, else `cold`.
    """
    output = Output(as_json)
    import asyncio

    runs, statuses = asyncio.run(_run(output))
    if as_json:
        output.json([run.as_json() for run in runs])
        return
    from rich.constrain import Constrain

    from . import provenance, shipped

    output.text("")
    names = list(dict.fromkeys(run.prompt.name for run in runs))
    for number, name in enumerate(names, 1):
        of_prompt = [run for run in runs if run.prompt.name == name]
        prompt = of_prompt[0].prompt
        output.table(
            cell(f"{number}. {prompt.name}: {prompt.file}:{prompt.at}", "bold"),
            _excerpt(of_prompt[0]),
            # Side by side they need an edge, which a pipe has not.
            Constrain(_texts(of_prompt), None if output.stdout.isatty() else _PIPED),
            _times(of_prompt),
            cell(""),
        )
    backend = statuses[0].backend
    # Nobody but Warmline itself has approved them here.
    ours = dict.fromkeys(shipped.approved(shipped.folder()), "shipped")
    output.table(
        cell(f"Where it came from ({backend.name} {backend.version})", "bold"), provenance.table(statuses, ours)
    )
    _on_openvino(output, runs, wanted=not llama_only)


def _on_openvino(output: Output, runs: list[_Run], *, wanted: bool) -> None:
    from warmline.backends.openvino_native import INSTALL, installed

    if wanted and installed():
        from . import demo_openvino

        output.text("")
        import asyncio

        demo_openvino.show(output, asyncio.run(demo_openvino.run(output, runs)))
    elif wanted:
        output.note(cell(f"To see the same on OpenVINO: {INSTALL}", "dim"))


async def _run(output: Output) -> tuple[list[_Run], list[VariantStatus]]:
    from . import shipped
    from .complete import ask
    from .document import parse_place, read
    from .selection import select
    from .session import engine

    examples = shipped.folder()
    prompts = shipped.prompts(examples)
    names = list(dict.fromkeys(name for prompt in prompts for name in prompt.variants))
    variants = {name: select(examples, name).variant for name in names}
    runs: list[_Run] = []
    async with engine(output, shipped.approved(examples)) as client:
        statuses = []
        for name, variant in variants.items():
            with output.working(f"Loading {name}"):
                # Loaded before the clock runs: a first token's time is prefill, not the disk.
                statuses.append(await client.load(variant))
        for prompt in prompts:
            place = parse_place(f"{examples / prompt.file}:{prompt.at}")
            document = read(place.file)
            line, column = document.cursor(place)
            typed = document.with_text(line, column, prompt.typed)
            steps = [(step, name) for step in ("open", "type") for name in prompt.variants]
            for step, name in [*steps, ("return", prompt.variants[0])]:
                text, at = (document, column) if step == "open" else (typed, column + len(prompt.typed))
                with output.working(f"{prompt.file}: {name}"):
                    completion = await ask(client, variants[name], text, line, at, client="demo")
                runs.append(_Run(prompt, step, name, text, (line, at), completion))
    return runs, statuses


def _excerpt(run: _Run) -> Text:
    """Show the lines around the cursor, the cursor as a bar."""
    from rich.text import Text

    line, column = run.cursor
    snapshot = run.document.snapshot
    text = Text()
    for number in range(max(line - 3, 0), min(line + 2, snapshot.line_count)):
        content = snapshot.line(number)
        before, after = (content[:column], content[column:]) if number == line else (content, "")
        text.append(f"\n{number + 1:4}  {visible(before)}", style="dim")
        if number == line:
            text.append("|", style="bold green")
            text.append(visible(after), style="dim")
    return text


def _texts(runs: list[_Run]) -> Table:
    """Show what each variant suggests for the file as opened, beside each other."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    opened = [run for run in runs if run.step == "open"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    cells: list[_Code | Text] = []
    for run in opened:
        table.add_column(cell(run.variant), ratio=1, overflow="fold")
        text = run.completion.text
        nothing = Text(f"(nothing: {run.completion.reason})", style="dim")
        cells.append(_Code(text) if text is not None else nothing)
    table.add_row(*cells)
    return table


class _Code:
    """A suggestion, its too long lines folded so that what follows still stands under its own line."""

    def __init__(self, text: str) -> None:
        self._lines = visible(text).expandtabs(4).split("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text(
            "\n".join(piece for line in self._lines for piece in folded(line, options.max_width)),
            style="green",
            no_wrap=True,
            overflow="fold",
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(min(16, options.max_width), options.max_width)


def folded(line: str, width: int) -> list[str]:
    """Fold a line of code to `width` terminal columns, after a space where there is one near the edge.

    What goes on below begins with an arrow, deeper than the line itself, so that it can't be taken for a line of code.
    """
    from rich.cells import cell_len, set_cell_size

    lead = line[: len(line) - len(line.lstrip())][: width // 3] + _FOLD
    pieces, rest = [], line
    while cell_len(rest) > width and width > len(lead) + 1:
        cut = max(len(set_cell_size(rest, width).rstrip()), len(lead) + 1)
        at = rest.rfind(" ", len(rest) - len(rest.lstrip()) + len(_FOLD), cut) + 1
        cut = at if at > cut // 2 else cut
        pieces.append(rest[:cut].rstrip())
        rest = lead + rest[cut:].lstrip()
    return [*pieces, rest]


def _times(runs: list[_Run]) -> Table:
    from rich.table import Table

    table = Table("step", "variant", "kv", "first token", "all", "reused", "why", box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    table.columns[-1].overflow = "fold"
    for column in table.columns[3:6]:
        column.justify = "right"
    for run in runs:
        values = run.as_json()
        warm = values["kv"] == "warm"
        table.add_row(
            cell(_STEPS[run.step]),
            cell(run.variant),
            cell(values["kv"], "green" if warm else "cyan"),
            cell(f"{values['ttft_ms'] or 0:.0f} ms"),
            cell(f"{values['total_ms']:.0f} ms"),
            cell(f"{values['reused_tokens']} of {values['prompt_tokens']}{'*' if values['reused_estimated'] else ''}"),
            cell(in_words(values["reason"]) if values["reason"] else values["shown"]),
        )
    return table


def in_words(reason: str) -> str:
    """Say in words how warm a request's KV was; a reason that is not known stays as it is."""
    kind, _, detail = reason.partition(":")
    if kind == "identity":
        field = detail.rpartition(".")[2] if detail.endswith("scale") else re.split(r"[.\[]", detail)[0]
        return f"other {_FIELDS.get(field, field)}"
    if kind == "prefix":
        reused, _, whole = detail.partition("/")
        return "typed on" if reused.isdigit() and whole.isdigit() and 2 * int(reused) >= int(whole) else "other text"
    return _REASONS.get(kind, reason)
