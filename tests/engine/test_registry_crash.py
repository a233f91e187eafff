"""Whatever moment a process dies at, full or read-only the disk: the store is as before or as it should be."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from store_tools import acme, check, filled, openvino_model, peft, state
from warmline.digests import bytes_digest
from warmline.errors import StoreError, WarmlineError
from warmline.registry import Store
from warmline.store import changes

from .test_registry_store import tiny_bytes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")


def prepared(home: Path, work: Path) -> None:
    store = filled(home, work)
    write_adapter(work / "new.gguf", weights=b"\x07")
    write_base(work / "other.gguf", weights=b"\x08")
    (work / "tiny.gguf").write_bytes(tiny_bytes())
    store.add_model(work / "tiny.gguf", "tiny")
    peft(work / "peft")
    store.add_model(openvino_model(work / "ov"), "ov", "openvino")
    openvino_model(work / "ov2", b"others")
    store.add_adapter(work / "peft", "ov", "openvino", base="ov")
    store.add_adapter(work / "new.gguf", "spare", base="base")
    store.add_model(work / "other.gguf", "spare", copy=True)


def with_rubbish(store: Store) -> None:
    place = store.home / "staging/left"
    place.mkdir(parents=True, exist_ok=True)
    (place / "half").write_bytes(b"half")
    changes.write_file(store.places.blobs.path(bytes_digest(b"orphan")), b"orphan")


CHANGES: dict[str, Callable[[Store, Path], object]] = {
    "model copied": lambda s, w: s.add_model(w / "new-base.gguf", "new", copy=True),
    "model referenced": lambda s, w: s.add_model(w / "base.gguf", "new"),
    "folder copied": lambda s, w: s.add_model(w / "ov2", "new", "openvino", copy=True),
    "adapter": lambda s, w: s.add_adapter(w / "style.gguf", "new", base="base"),
    "new adapter": lambda s, w: s.add_adapter(w / "newer.gguf", "new", base="base"),
    "adapter converted": lambda s, w: s.add_adapter(w / "peft", "new", base="tiny"),
    "adapter for openvino": lambda s, w: s.add_adapter(w / "peft", "new", "openvino", base="ov"),
    "variant": lambda s, w: s.add_variant(acme("new")),
    "variant replaced": lambda s, w: s.add_variant(acme(description="new"), replace=True),
    "variant removed": lambda s, w: s.remove_variant("acme"),
    "adapter removed": lambda s, w: s.remove_adapter("spare"),
    "openvino adapter removed": lambda s, w: s.remove_adapter("ov"),
    "model removed": lambda s, w: s.remove_model("llama/spare"),
    "sweep": lambda s, w: s.sweep(),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    work = tmp_path_factory.mktemp("work")
    home = tmp_path_factory.mktemp("template") / "home"
    prepared(home, work)
    write_adapter(work / "newer.gguf", weights=b"\x0c")
    write_base(work / "new-base.gguf", weights=b"\x0d")
    return home, work


def fresh(template: tuple[Path, Path], home: Path, change: str) -> Store:
    """Copy the prepared store, hard links included."""
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run(["cp", "-a", template[0], home], check=True)
    store = Store(home)
    if change == "sweep":
        with_rubbish(store)
    return store


def in_child(act: Callable[[], object]) -> int:
    """Run in a process of its own; return its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


CHANGING_CALLS = (
    "open",
    "write",
    "replace",
    "rename",
    "link",
    "unlink",
    "rmdir",
    "mkdir",
    "fsync",
    "ftruncate",
    "remove",
)


def dying_at_call(number: int, act: Callable[[], object]) -> Callable[[], object]:
    """Give `act` in which the process dies before the `number`-th call that could change the disk."""

    def run() -> object:
        count = 0
        for name in CHANGING_CALLS:
            real = getattr(os, name)

            def counted(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count == number:
                    die()
                return _real(*args, **kwargs)

            setattr(os, name, counted)
        return act()

    return run


def dying_at_step(number: int, act: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        steps = iter(range(1, 1000))

        def step(_name: str) -> None:
            if next(steps) == number:
                die()

        changes.step = step
        return act()

    return run


def after(template: tuple[Path, Path], home: Path, change: str) -> dict[str, str]:
    store = fresh(template, home, change)
    CHANGES[change](store, template[1])
    store.sweep()
    return state(home)


@pytest.mark.parametrize("dying", [dying_at_step, pytest.param(dying_at_call, marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", CHANGES)
def test_a_crash_leaves_the_old_state_or_the_new(
    template: tuple[Path, Path], tmp_path: Path, change: str, dying: Callable[..., Callable[[], object]]
) -> None:
    home = tmp_path / "home"
    fresh(template, home, "")
    old, new = state(home), after(template, home, change)
    assert (old == new) is (change == "sweep")
    reached = set()
    for number in range(1, 400):
        store = fresh(template, home, change)
        status = in_child(dying(number, lambda store=store: CHANGES[change](store, template[1])))
        check(store)
        store.sweep()
        check(store)
        now = state(home)
        assert now in (old, new), (number, sorted(set(now) ^ set(old)))
        reached |= {name for name, then in (("old", old), ("new", new)) if now == then}
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            assert now == new
            break
        # The next process is not held up by the dead one, and can do it.
        if now == old and number % 5 == 1:
            CHANGES[change](store, template[1])
            store.sweep()
            assert state(home) == new
    else:
        pytest.fail("the change does not end")
    assert number > 1
    assert reached == {"old", "new"}


def test_a_kill_at_any_moment_of_a_long_copy(template: tuple[Path, Path], tmp_path: Path) -> None:
    home, big = tmp_path / "home", tmp_path / "big.gguf"
    data = (template[1] / "base.gguf").read_bytes()
    big.write_bytes(data + bytes(24 << 20))
    moments = random.Random(3)
    fresh(template, home, "")
    old = state(home)
    killed = 0
    for _ in range(12):
        store = fresh(template, home, "")
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                store.add_model(big, "big", copy=True)
            os._exit(0)
        time.sleep(moments.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        check(store)
        store.sweep()
        now = state(home)
        assert now == old or [each.name for each in store.list_models("llama")] == ["base", "big", "spare", "tiny"]
    assert killed


# ---- the lock ----


def test_a_busy_store_says_who_is_at_it(template: tuple[Path, Path], tmp_path: Path) -> None:
    store = fresh(template, tmp_path / "home", "")
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with changes.changing(store.home, "model add qwen"):
            os.write(ready[1], b".")
            os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    assert f"process {child}" in str(store.busy())
    with pytest.raises(StoreError) as caught, changes.changing(store.home, "x", timeout=0.1):
        pass
    assert caught.value.code == "store.locked"
    assert f"process {child} has been at `model add qwen`" in caught.value.message
    os.write(done[1], b".")
    os.waitpid(child, 0)
    assert store.busy() is None
    with changes.changing(store.home, "x", timeout=0.1):
        pass
    for fd in (*ready, *done):
        os.close(fd)


def test_a_dead_holder_is_not_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for note in ('{"pid": 999999999, "what": "x", "since": "y"}', "{", "[]", '{"pid": "x"}', '{"pid": 1e99}'):
        (home / "store.holder").write_text(note)
        assert changes.holder(home) is None


def test_many_at_once_all_succeed(template: tuple[Path, Path], tmp_path: Path) -> None:
    store, failed = fresh(template, tmp_path / "home", ""), []

    def work(number: int) -> None:
        try:
            store.add_adapter(template[1] / "newer.gguf", f"n{number}", base="base")
            store.add_variant(acme(f"v{number}"))
            if number % 2:
                store.remove_adapter(f"n{number}")
            store.sweep()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(each.name for each in store.list_adapters("llama")) == ["n0", "n2", "n4", "n6", "spare", "style"]
    check(store)


# ---- the disk ----


def limited(act: Callable[[], object], code: str, size: int) -> Callable[[], None]:
    def run() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            act()
        except WarmlineError as error:
            assert error.code == code, error
            assert error.remedy
        else:
            raise AssertionError("nothing was refused")

    return run


@pytest.mark.parametrize("size", [0, 100, 300])
@pytest.mark.parametrize("change", ["model copied", "new adapter", "adapter converted", "adapter for openvino"])
def test_a_full_disk_is_said_and_changes_nothing(
    template: tuple[Path, Path], tmp_path: Path, change: str, size: int
) -> None:
    store = fresh(template, tmp_path / "home", change)
    old = state(store.home)
    assert in_child(limited(lambda: CHANGES[change](store, template[1]), "store.full", size)) == 0
    assert state(store.home) == old
    check(store)
    assert not list((store.home / "staging").glob("*/*.gguf"))


def failing_at(number: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Let the `number`-th call that takes space fail; give the list that calls are noted in."""
    calls: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        return call

    for name in ("mkdir", "fsync", "write", "replace"):
        patch.setattr(os, name, noted(name, getattr(os, name)))
    return calls


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "sweep"])
def test_no_space_at_any_write(
    template: tuple[Path, Path], tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOSPC at the n-th write, fsync, rename or new folder: a typed error, and the old state, or the new one."""
    home = tmp_path / "home"
    fresh(template, home, "")
    old, new = state(home), after(template, home, change)
    for number in range(1, 100):
        store = fresh(template, home, change)
        with monkeypatch.context() as patch:
            calls = failing_at(number, patch)
            try:
                CHANGES[change](store, template[1])
            except WarmlineError as error:
                assert error.code in ("store.full", "trust.store"), error
            ended = len(calls) < number
        store.sweep()
        assert state(home) in (old, new)
        check(store)
        if ended:
            break
    assert number > 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_read_only_store_is_said(template: tuple[Path, Path], tmp_path: Path, change: str) -> None:
    """As another user, for whom nothing in there is writable."""
    if os.getuid() != 0:
        pytest.skip("changing the user needs root")
    work = tmp_path / "work"
    shutil.copytree(template[1], work)
    store = fresh(template, tmp_path / "home", change)
    old = state(store.home)
    for path in (*tmp_path.parents, tmp_path, *tmp_path.rglob("*")):
        with contextlib.suppress(PermissionError):
            if str(path) != "/":
                path.chmod(path.stat().st_mode | 0o555)

    def act() -> None:
        os.setgid(65534)
        os.setuid(65534)
        try:
            CHANGES[change](store, work)
        except WarmlineError as error:
            assert error.code == "store.read_only", (error.code, str(error))
            assert "WARMLINE_HOME" in error.remedy
        else:
            raise AssertionError("nothing was refused")

    assert in_child(act) == 0
    assert state(store.home) == old


@pytest.mark.slow
def test_a_large_adapter_streams(tmp_path: Path) -> None:
    """200 MB pass through in less than 64 MB; the same for a base that is copied."""
    script = """
import json, resource, sys, threading, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import numpy, warmline.store.install_adapter, warmline.artifacts.convert, warmline.weights, gguf
from warmline.registry import Store
def rss():
    return int(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1]) * 1024
work = Path(sys.argv[1])
store = Store(work / "home")
store.add_model(work / "base.gguf", "base")
store.add_adapter(work / "small", "small", base="base")
before, peak, on = rss(), 0, True
def watch():
    global peak
    while on:
        peak = max(peak, rss())
        time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
store.add_adapter(work / "big", "big", base="base")
store.add_adapter(store.adapter_path(store.get_adapter("big")), "again", base="base")
store.add_model(work / "padded.gguf", "padded", copy=True)
on = False; thread.join()
print(json.dumps({"grown": peak - before, "size": store.get_adapter("big").size}))
"""
    import gguf_writer as w
    from safetensors_writer import large_folder

    width = 12_800
    infos, data = w.laid_out({"blk.0.attn_q.weight": ((width, width), w.TENSOR_Q4_0)})
    keys = [w.kv_str("general.architecture", "llama"), w.kv("llama.block_count", w.U32, w.u32(1))]
    keys += [w.kv("llama.attention.head_count", w.U32, w.u32(100))]
    (tmp_path / "base.gguf").write_bytes(w.gguf(keys, infos, data=data))
    (tmp_path / "padded.gguf").write_bytes(w.gguf(keys, infos, data=data) + bytes(128 << 20))
    modules = {"model.layers.0.self_attn.q_proj": (width, width)}
    large_folder(tmp_path / "small", modules, 8, "F16")
    large_folder(tmp_path / "big", modules, 4096, "F16")
    paths = [str(Path(__file__).parents[1] / "support")]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), *paths], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report)
    assert report["size"] > 200e6
    assert report["grown"] < 64 << 20
