"""The engine host as a process: one for all who race, warm for the next, and its death costs one suggestion."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from smollm2 import ACME, base_path
from warmline.errors import BackendError, WarmlineError
from warmline.host import calls, remote, ways
from warmline.host.logs import parsed
from warmline.host.paths import HostPaths, host_paths
from warmline.host.process import check_answers, ensure_running, info, stop
from warmline.host.quarantine import CrashLedger
from warmline.host.remote import RemoteEngine
from warmline.host.wire import CompletionRequest, Done, EngineStatus, Event, Outcome, Started, State
from warmline.kv.disk import DiskSnapshots
from warmline.settings import change_setting
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant

pytestmark = pytest.mark.model
LONG = "".join(f"def function_{number}(value):\n    return value + {number}\n\n\n" for number in range(60))
SHORT = "def transfer("


def variant(*adapters: Path, **profile: object) -> ResolvedVariant:
    return ResolvedVariant(
        name="v",
        backend="llama",
        base=ResolvedBase(name="smollm2", path=base_path()),
        adapters=tuple(ResolvedAdapter(name="acme", path=path, scale=1) for path in adapters),
        profile=Profile(**{"n_ctx": 2048, "max_tokens": 8, **profile}),
        file="v.json",
    )


def request(prefix: str, which: ResolvedVariant | None = None, **more: object) -> CompletionRequest:
    return CompletionRequest(client="t", document="d", variant=which or variant(), prefix=prefix, **more)


async def ask(engine: RemoteEngine, what: CompletionRequest) -> tuple[Started, Done]:
    events: list[Event] = [event async for event in engine.complete(what)]
    return next(e for e in events if isinstance(e, Started)), next(e for e in events if isinstance(e, Done))


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostPaths:
    monkeypatch.setenv("WARMLINE_ENGINE_IDLE_SECONDS", "30")
    return host_paths(tmp_path / "home")


@pytest_asyncio.fixture
async def engine(paths: HostPaths) -> AsyncIterator[RemoteEngine]:
    engine = RemoteEngine(paths.home)
    yield engine
    await engine.close()
    await asyncio.to_thread(stop, paths)


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def gone(paths: HostPaths, pid: int) -> None:
    """Wait until a host has ended."""
    while True:
        try:
            state = process_state(pid)
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        await asyncio.sleep(0.01)


async def test_clients_that_race_start_one_host(paths: HostPaths) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from warmline.host.paths import host_paths;"
        "from warmline.host.process import ensure_running;"
        "print(asyncio.run(ensure_running(host_paths(Path(sys.argv[1])))).pid)"
    )
    racers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(paths.home), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    pids = {(await racer.communicate())[0] for racer in racers}
    assert len(pids) == 1
    assert paths.log.read_text().count("starting, pid") == 1
    await asyncio.to_thread(stop, paths)
    assert await info(paths) is None


async def test_the_base_is_loaded_once_for_all_clients(engine: RemoteEngine, paths: HostPaths) -> None:
    others = [RemoteEngine(paths.home) for _ in range(3)]
    await ask(engine, request(SHORT))
    before = resident_bytes(int(paths.pid.read_text()))
    for index, other in enumerate(others):
        started, _ = await ask(other, request(SHORT).model_copy(update={"client": f"other{index}"}))
        assert started.reused_tokens > 0
        await other.close()
    assert 'warmline_state{what="bases"} 1.0' in await engine.metrics()
    assert resident_bytes(int(paths.pid.read_text())) - before < base_path().stat().st_size / 4


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_restarted_host_begins_warm(engine: RemoteEngine, paths: HostPaths) -> None:
    first, _ = await ask(engine, request(LONG))
    assert first.reason == "cold"
    assert await asyncio.to_thread(stop, paths)
    assert len(DiskSnapshots(paths.snapshots).entries()) == 1
    with contextlib.suppress(BackendError):  # the old connection may only now notice
        await engine.status()
    again, _ = await ask(engine, request(LONG + "x"))
    assert again.reused_tokens >= first.prompt_tokens - 2
    assert (await engine.status()).state is State.READY
    assert 'what="restored:disk"' in await engine.metrics()


async def test_why_a_snapshot_was_not_used_is_told(engine: RemoteEngine, paths: HostPaths) -> None:
    await ask(engine, request(LONG))
    assert await asyncio.to_thread(stop, paths)
    [entry] = DiskSnapshots(paths.snapshots).entries()
    entry.path.write_bytes(entry.path.read_bytes()[:-1] + b"!")
    with contextlib.suppress(BackendError):  # the old connection may only now notice
        await engine.status()
    again, _ = await ask(engine, request(LONG + "x"))
    assert (again.reused_tokens, again.reason) == (0, "rejected:checksum")
    assert 'what="rejected:checksum"' in await engine.metrics()
    assert f"the snapshot {entry.path.name} is removed: checksum" in paths.log.read_text()


@pytest.mark.parametrize("moment", ["load", "prefill", "decode"])
async def test_a_killed_host_costs_one_suggestion(engine: RemoteEngine, paths: HostPaths, moment: str) -> None:
    if moment != "load":
        await ask(engine, request(SHORT))
    pid = (await ensure_running(paths)).pid
    seen: list[Event] = []
    first = asyncio.Event()

    async def doomed() -> None:
        wanted = request(LONG if moment == "prefill" else SHORT + "x", variant(max_tokens=500))
        async for event in engine.complete(wanted):
            seen.append(event)
            first.set()

    task = asyncio.create_task(doomed())
    state = State.LOADING if moment == "load" else State.BUSY
    watcher = RemoteEngine(paths.home)
    async with contextlib.aclosing(watcher.watch()) as states:  # type: ignore[type-var]
        async for status in states:
            if status.state is state and (moment != "decode" or seen):
                break
            if moment == "decode" and status.state is State.BUSY:
                await first.wait()
                break
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BackendError) as caught:
        await task
    assert caught.value.code == "backend.crashed"
    assert not any(isinstance(event, Done) for event in seen)
    started, done = await ask(engine, request(SHORT))
    assert done.outcome in (Outcome.STOP, Outcome.LENGTH)
    assert started.reason == "cold"
    assert (await engine.info()).pid != pid
    # A kill from outside blames nobody.
    assert CrashLedger(paths.crashes).suspects() == []
    await watcher.close()


async def until_state(states: AsyncIterator[EngineStatus], *wanted: State) -> None:
    async for status in states:
        if status.state in wanted:
            return


@pytest.mark.parametrize("transport", ["unix", "tcp"])
async def test_who_waits_for_a_host_that_stands_still_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    monkeypatch.setenv("WARMLINE_TRANSPORT", transport)
    monkeypatch.setattr(calls, "LISTEN_SECONDS", 0.3)
    monkeypatch.setattr(remote, "check_answers", partial(check_answers, seconds=0.5))
    often = {"grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 1000}
    for name in ("CLIENTS_OPTIONS", "_CLIENTS_OPTIONS"):
        monkeypatch.setattr(ways, name, tuple({**dict(getattr(ways, name)), **often}.items()))
    paths = host_paths(tmp_path / "home")
    engine = RemoteEngine(paths.home)
    try:
        await ask(engine, request(SHORT))
        pid = (await engine.info()).pid
        async with contextlib.aclosing(engine.watch()) as states:  # type: ignore[type-var]
            await until_state(states, State.READY)
            begun = engine.complete(request(SHORT + "x", variant(max_tokens=1500)))
            assert isinstance(await anext(begun), Started)
            os.kill(pid, signal.SIGSTOP)
            try:
                asked = asyncio.create_task(engine.describe(variant()))
                with pytest.raises(BackendError) as of_the_answer:
                    async for _ in begun:
                        pass
                with pytest.raises(BackendError) as of_the_question:
                    await asked
                assert {of_the_answer.value.code, of_the_question.value.code} == {"backend.silent"}
                await until_state(states, State.EMPTY)
            finally:
                os.kill(pid, signal.SIGCONT)
            # What was not answered is given up; the host is the same, and still has what it had.
            await until_state(states, State.READY, State.BUSY)
            assert (await ask(engine, request(SHORT)))[0].reason == "warm"
            assert (await engine.info()).pid == pid
    finally:
        await engine.close()
        await asyncio.to_thread(stop, paths)


async def test_a_watcher_outlasts_a_start_that_failed(
    engine: RemoteEngine, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.lease.mkdir(parents=True)
    async with contextlib.aclosing(engine.watch()) as states:  # type: ignore[type-var]
        await until_state(states, State.EMPTY)
        with pytest.raises(BackendError) as caught:
            await engine.status()
        assert caught.value.code == "backend.host_start"
        paths.lease.rmdir()
        await engine.load(variant())
        await until_state(states, State.READY)


async def test_after_a_kill_the_next_host_is_warm_from_what_lies_on_disk(
    engine: RemoteEngine, paths: HostPaths
) -> None:
    first, _ = await ask(engine, request(LONG))
    assert await asyncio.to_thread(stop, paths)  # writes it
    with contextlib.suppress(BackendError):  # the old connection may only now notice
        await engine.status()
    await ask(engine, request(SHORT))
    pid = (await engine.info()).pid
    os.kill(pid, signal.SIGKILL)
    await gone(paths, pid)
    with contextlib.suppress(BackendError):
        await engine.status()
    again, done = await ask(engine, request(LONG + "x"))
    assert again.reused_tokens >= first.prompt_tokens - 2
    assert done.outcome in (Outcome.STOP, Outcome.LENGTH)
    assert 'what="restored:disk"' in await engine.metrics()


async def test_a_host_killed_while_it_writes_leaves_no_half_snapshot(engine: RemoteEngine, paths: HostPaths) -> None:
    await ask(engine, request(LONG))
    pid = (await engine.info()).pid
    os.kill(pid, signal.SIGTERM)
    paths.snapshots.mkdir(parents=True, exist_ok=True)
    while not any(paths.snapshots.iterdir()):
        await asyncio.sleep(0)
        if await asyncio.to_thread(paths.socket.exists) is False:
            break
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await gone(paths, pid)
    disk = DiskSnapshots(paths.snapshots)
    disk.entries()
    assert disk.rejected == {}
    with contextlib.suppress(BackendError):
        await engine.status()
    _, done = await ask(engine, request(LONG))
    assert done.outcome in (Outcome.STOP, Outcome.LENGTH)


async def test_an_idle_host_leaves_and_comes_back(paths: HostPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMLINE_ENGINE_IDLE_SECONDS", "0.2")
    engine = RemoteEngine(paths.home)
    pid = (await engine.info()).pid
    await gone(paths, pid)
    assert not paths.socket.exists()
    monkeypatch.setenv("WARMLINE_ENGINE_IDLE_SECONDS", "30")
    with contextlib.suppress(BackendError):
        await engine.status()
    assert (await engine.info()).pid != pid
    await engine.close()
    await asyncio.to_thread(stop, paths)


async def test_what_crashed_natively_twice_is_refused_until_released(engine: RemoteEngine, paths: HostPaths) -> None:
    """SIGSEGV stands in for a native fault: faulthandler cannot tell the two apart."""
    acme = variant(ACME)
    for _ in range(2):
        await ask(engine, request(SHORT, acme))
        pid = (await engine.info()).pid
        os.kill(pid, signal.SIGSEGV)
        await gone(paths, pid)
        with contextlib.suppress(WarmlineError):
            await engine.status()
    with pytest.raises(WarmlineError) as caught:
        await ask(engine, request(SHORT, acme))
    assert (caught.value.code, caught.value.field) == ("artifact.quarantined", "adapters[0].path")
    assert (await ask(engine, request(SHORT)))[1].outcome in (Outcome.STOP, Outcome.LENGTH)
    ledger = CrashLedger(paths.crashes)
    suspect = ledger.suspects()[0]
    assert (suspect.name, suspect.crashes, suspect.quarantined) == ("acme", 2, True)
    assert "Segmentation fault" in suspect.last
    assert ledger.release(suspect.digest)
    await ask(engine, request(SHORT, acme))


@pytest.mark.parametrize("asked_for", [False, True])
async def test_prompts_are_logged_only_if_that_is_asked_for(
    engine: RemoteEngine, paths: HostPaths, asked_for: bool
) -> None:
    if asked_for:
        change_setting(paths.home, "log-prompts", "true")
    _, done = await ask(engine, request("a_very_secret_word = "))
    assert done.text
    async with asyncio.timeout(10):  # it is written when the answer has been given
        while "answered" not in paths.log.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    records = [record for line in paths.log.read_text().splitlines() if (record := parsed(line)) is not None]
    by_message = {record["message"]: record["fields"] for record in records}
    assert by_message["loaded"]["seconds"] > 0
    answered = by_message["answered"]
    assert (answered["kind"], answered["client"], answered["outcome"]) == ("complete", "t", done.outcome)
    assert answered["predicted_tokens"] == done.predicted_tokens
    assert answered["reason"] == "cold"
    assert answered["first_token_ms"] <= answered["total_ms"]
    assert (answered.get("text") == done.text) is asked_for
    assert ("asked" in by_message) is asked_for
    assert ("a_very_secret_word" in paths.log.read_text()) is asked_for
    assert paths.log.stat().st_mode & 0o077 == 0


async def test_one_clients_broken_variant_is_no_others_failure(engine: RemoteEngine, paths: HostPaths) -> None:
    await ask(engine, request(SHORT))
    broken = variant().model_copy(update={"base": ResolvedBase(name="gone", path=paths.home / "gone.gguf")})
    other = RemoteEngine(paths.home)
    with pytest.raises(WarmlineError):
        await ask(other, request(SHORT, broken).model_copy(update={"client": "other"}))
    mine, theirs = await engine.status("t"), await other.status("other")
    assert (mine.state, mine.error) == (State.READY, None)
    assert theirs.state is State.FAILED
    assert theirs.error
    assert theirs.error.code == "artifact.missing"
    await other.close()


async def test_a_runtime_folder_of_others_is_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("r")  # sockets have short names
    folder.chmod(0o777)
    monkeypatch.setenv("WARMLINE_RUNTIME_DIR", str(folder))
    assert host_paths(tmp_path).folder == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(BackendError) as caught:
        host_paths(tmp_path)
    assert caught.value.code == "backend.runtime_folder"


def test_the_ledger_survives_damage(tmp_path: Path) -> None:
    for name, text in (("counts.json", "["), ("running.json", json.dumps({"a": 1})), ("native.txt", "Fatal")):
        (tmp_path / name).write_text(text)
    ledger = CrashLedger(tmp_path)
    assert ledger.open() == []
    assert ledger.suspects() == []
    ledger.close()


def test_a_release_elsewhere_is_noticed(tmp_path: Path) -> None:
    digest = "sha256:" + "ab" * 32
    counts = {digest: {"crashes": 2, "name": "acme"}}
    running, elsewhere = CrashLedger(tmp_path), CrashLedger(tmp_path)
    assert not running.quarantined(digest)
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    assert running.quarantined(digest)
    assert elsewhere.release(digest)
    assert not running.quarantined(digest)
    (tmp_path / "counts.json").unlink()
    assert not running.quarantined(digest)
