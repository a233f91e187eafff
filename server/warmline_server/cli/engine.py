"""`warmline engine`: the process that holds the models, for every editor of this user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, quarantined_digests
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.errors import BackendError
    from warmline.host.paths import HostPaths
    from warmline.host.wire import EngineStatus, HostInfo

app = typer.Typer(help="The engine's own process: start, stop and watch it.")


@app.callback()
def group() -> None:
    """The engine's own process: start, stop and watch it."""


@app.command("start")
def start(
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve Prometheus metrics on this port of 127.0.0.1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the engine, if it does not run; clients do so by themselves."""
    import asyncio  # not at the top: it is a tenth of what `warmline --help` takes

    from warmline.errors import BackendError
    from warmline.host.process import ensure_running, info

    output = Output(as_json)
    paths = _paths()

    async def started() -> tuple[HostInfo | None, HostInfo]:
        return await info(paths), await ensure_running(paths, metrics_port=metrics_port)

    with output.working("Starting the engine"):
        before, running = asyncio.run(started())
    if metrics_port and running.metrics_port != metrics_port:
        why = "the engine runs already, without it" if before else "the port cannot be had"
        raise BackendError(
            f"there is no endpoint on 127.0.0.1:{metrics_port}: {why}",
            code="backend.metrics_port",
            field="--metrics-port",
            remedy="Stop it first: warmline engine stop" if before else "Choose another port; warmline engine logs",
        )
    if as_json:
        output.json(_info(running, paths) | {"started": before is None})
        return
    output.note(cell(f"The engine {'runs already' if before else 'runs'}: process {running.pid}, {paths.socket}"))
    if running.metrics_port:
        output.note(cell(f"Metrics: http://127.0.0.1:{running.metrics_port}/metrics"))


@app.command("stop")
def stop(as_json: Json = False) -> None:
    """Stop the engine; the hottest KV goes to disk, and the next client starts a new one."""
    from warmline.host.process import stop as stop_host

    output = Output(as_json)
    with output.working("Stopping the engine"):
        ran = stop_host(_paths())
    if as_json:
        output.json({"stopped": ran})
    else:
        output.note(cell("Stopped." if ran else "No engine was running."))


@app.command("status")
def status(as_json: Json = False) -> None:
    """Say whether the engine runs, and what it is doing. Starts nothing."""
    import asyncio

    from . import tables

    output = Output(as_json)
    paths = _paths()
    running, state = asyncio.run(_asked(paths))
    if as_json:
        output.json(_info(running, paths) | {"state": state.model_dump(mode="json") if state else None})
        return
    if running is None or state is None:
        output.note(cell("No engine is running; the first request starts one. Now: warmline engine start"))
        return
    doing = str(state.state)
    if state.loading:
        doing += f" {state.loading}" + (f" {state.percent} %" if state.percent is not None else "")
    last = state.last
    tables.facts(
        output,
        {
            "state": (doing, "bold"),
            "process": str(running.pid),
            "version": running.version,
            "since": running.started_at,
            "requests": str(running.requests),
            "variant": f"{state.active.variant} {state.active.identity}" if state.active else "",
            "last": f"{last.outcome}, {last.reason}, first token {last.ttft_ms:.0f} ms" if last else "",
            "error": (state.error.message, "red") if state.error else "",
            "metrics": f"http://127.0.0.1:{running.metrics_port}/metrics" if running.metrics_port else "",
            "socket": str(paths.socket),
            "log": str(paths.log),
            "store": running.home,
        },
    )


@app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many, from the end.")] = 50,
    as_json: Json = False,
) -> None:
    """Print the end of the engine's log. Prompts are not in it, unless the setting `log-prompts` is on."""
    output = Output(as_json)
    file = _paths().log
    found = _last_lines(file, lines)
    if as_json:
        from warmline.host.logs import parsed

        output.json({"file": str(file), "lines": found, "records": [parsed(line) for line in found]})
        return
    for line in found:
        output.text(line)
    output.note(cell(f"{file}" if found else f"There is no log yet: {file}", "dim"))


@app.command("metrics")
def metrics(as_json: Json = False) -> None:
    """Print what the engine counts: Prometheus' text format, or with --json a list of samples."""
    import asyncio

    from warmline.host.remote import RemoteEngine
    from warmline.registry import warmline_home

    output = Output(as_json)

    async def asked() -> str:
        await _running(_paths())
        client = RemoteEngine(warmline_home())
        try:
            return await client.metrics()
        finally:
            await client.close()

    text = asyncio.run(asked())
    if not as_json:
        output.text(text.rstrip("\n"))
        return
    from prometheus_client.parser import text_string_to_metric_families

    output.json(
        [
            {"name": sample.name, "labels": sample.labels, "value": sample.value}
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    )


@app.command("release")
def release(
    digest: Annotated[str, typer.Argument(help="Its digest, or the first digits.", autocompletion=quarantined_digests)],
    as_json: Json = False,
) -> None:
    """Let something that crashed the engine twice be loaded again."""
    from warmline.errors import ArtifactError
    from warmline.host.quarantine import CrashLedger

    output = Output(as_json)
    ledger = CrashLedger(_paths().crashes)
    known = {suspect.digest: suspect for suspect in ledger.suspects()}
    if not ledger.release(digest):
        crashed = ", ".join(f"{each.name} {each.digest}" for each in known.values())
        raise ArtifactError(
            "no single artifact that crashed the engine has this digest",
            code="artifact.not_quarantined",
            field=digest[:80],
            remedy=f"What crashed it: {crashed}" if crashed else "Nothing crashed it",
        )
    left = {suspect.digest for suspect in ledger.suspects()}
    released = [suspect for each, suspect in known.items() if each not in left]
    if as_json:
        output.json({"released": [{"digest": each.digest, "name": each.name} for each in released]})
        return
    for each in released:
        output.note(cell(f"{each.name} {each.digest} is loaded again; its {each.crashes} crashes are forgotten"))


def _paths() -> HostPaths:
    from warmline.host.paths import host_paths
    from warmline.registry import warmline_home

    return host_paths(warmline_home())


async def _asked(paths: HostPaths) -> tuple[HostInfo | None, EngineStatus | None]:
    from warmline.host.remote import RemoteEngine

    running = await _found(paths)
    if running is None:
        return None, None
    client = RemoteEngine(paths.home)
    try:
        return running, await client.status()
    finally:
        await client.close()


async def _running(paths: HostPaths) -> HostInfo:
    running = await _found(paths)
    if running is None:
        raise _not_running()
    return running


async def _found(paths: HostPaths) -> HostInfo | None:
    """Return who answers; None where no engine runs, an error where one does that cannot be asked."""
    from warmline.host.process import check_answers, check_transport, info

    running = await info(paths)
    if running is None:
        await check_transport(paths)
        await check_answers(paths)
    return running


def _not_running() -> BackendError:
    from warmline.errors import BackendError

    return BackendError(
        "no engine is running", code="backend.host_missing", remedy="Start it: warmline engine start, or just use it"
    )


def _info(running: HostInfo | None, paths: HostPaths) -> dict[str, Any]:
    return {
        "running": running is not None,
        "pid": running.pid if running else None,
        "version": running.version if running else None,
        "started_at": running.started_at if running else None,
        "requests": running.requests if running else None,
        "metrics_port": (running.metrics_port or None) if running else None,
        "socket": str(paths.socket),
        "log": str(paths.log),
        "home": str(paths.home),
    }


def _last_lines(file: Path, count: int) -> list[str]:
    """Read the log's end, and that of the one before it where it was just rotated."""
    found: list[str] = []
    for path in (file, file.with_name(file.name + ".1")):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found = text.splitlines()[-(count - len(found)) :] + found
        if len(found) >= count:
            break
    return found
