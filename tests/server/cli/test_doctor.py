"""`warmline doctor`: each check can fail, says what to do, and takes the others nowhere with it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_base
from store_tools import filled
from warmline.backends.openvino_guarantee import Canary, remember
from warmline.registry import Store
from warmline.trust import TrustStore
from warmline_server.cli import doctor
from warmline_server.cli.checks import Check, Level, editors, machine, openvino, storage
from warmline_server.cli.checks.variants import VariantChecks

Run = Callable[..., Any]


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Store:
    home.chmod(0o700)
    return filled(home, tmp_path)


def test_one_row_for_each_check(warmline: Run, store: Store) -> None:
    done = warmline("doctor", "--json")
    assert done.code == 0, done.out
    report = done.json
    names = {row["check"] for row in report["checks"]}
    assert names >= {
        *("python", "native library", "native functions", "processor", "memory", "store", "artifacts", "blobs"),
        *("settings", "variant llama/acme", "trust", "engine", "quarantine", "KV on disk", "locks"),
        *("command", "neovim", "vscode"),
    }
    assert sum(report["counts"].values()) == len(report["checks"])
    assert all(row["remedy"] for row in report["checks"] if row["level"] != "ok")


@pytest.mark.parametrize(
    ("content", "row", "said"),
    [
        ('{"variant": "acme"}', "", ""),
        ('{"variant": "acme", "chat": "acne"}', "workspace chat", "no variant called `acne`"),
        ('{"variant": "nope"}', "workspace", "no variant called `nope`"),
        ('{"variant": "acme",}', "workspace", "config.json"),
    ],
)
def test_what_the_workspace_selects_is_looked_at(
    warmline: Run, store: Store, tmp_path: Path, content: str, row: str, said: str
) -> None:
    (tmp_path / "ws/.warmline").mkdir(parents=True)
    (tmp_path / "ws/.warmline/config.json").write_text(content)
    done = warmline("doctor", "--json", cwd=tmp_path / "ws")
    checks = {each["check"]: each for each in done.json["checks"]}
    assert [name for name, each in checks.items() if each["level"] == "fail"] == ([row] if row else [])
    assert said in checks[row or "workspace"]["message"]
    assert done.code == (1 if row else 0)


def test_for_people_a_fault_comes_with_its_remedy(warmline: Run, store: Store, home: Path, tmp_path: Path) -> None:
    (home / "variants/llama/broken.json").write_text('{"name": "broken", "base": {"name": "bse"}}')
    done = warmline("doctor")
    assert done.code == 1
    assert "variant llama/broken" in done.out
    assert "Did you mean `base`?" in done.out
    assert "1 failure" in done.err


def test_an_empty_machine_is_no_failure(warmline: Run, tmp_path: Path) -> None:
    done = warmline("doctor", "--json", environment={"WARMLINE_HOME": str(tmp_path / "nothing")})
    assert done.code == 0, done.out
    assert not (tmp_path / "nothing").exists()


def checked(store: Store, *, deep: bool = False) -> dict[str, Check]:
    found = [*storage.artifacts(store, deep=deep), *VariantChecks(store, None, deep=deep).run()]
    return {check.name: check for check in found}


def test_a_whole_store_is_whole(store: Store) -> None:
    found = checked(store, deep=True)
    assert {name: check.level for name, check in found.items()} == {
        "artifacts": Level.OK,
        "blobs": Level.OK,
        "variant llama/acme": Level.WARN,  # unverified
    }


@pytest.mark.parametrize("default", [{}, {"default-variant": "acme"}])
def test_that_prompts_are_logged_is_not_forgotten(store: Store, default: dict[str, str]) -> None:
    (store.home / "config.json").write_text(json.dumps(default | {"log-prompts": True}))
    check = storage.settings(store)
    assert (check.level, check.remedy) == (Level.WARN, "warmline config unset log-prompts")
    (store.home / "config.json").write_text(json.dumps(default))
    assert storage.settings(store).level is Level.OK


def remove_the_blob(store: Store, kind: str) -> None:
    record = store.get_model("base") if kind == "model" else store.get_adapter("style")
    store.places.blobs.path(record.digest).unlink()


@pytest.mark.parametrize(
    ("breaking", "rows"),
    [
        (lambda s: remove_the_blob(s, "adapter"), {"adapter llama/style", "variant llama/acme"}),
        (lambda s: remove_the_blob(s, "model"), {"model llama/base", "variant llama/acme"}),
        (
            lambda s: (s.home / "models/llama/base/record.json").write_text("{"),
            {"model llama/base", "variant llama/acme"},
        ),
        (lambda s: (s.home / "variants/llama/acme.json").write_text("{"), {"variant llama/acme"}),
        (
            lambda s: s.places.blobs.path(s.get_adapter("style").digest).write_bytes(b"GGUF"),
            {"adapter llama/style", "variant llama/acme"},
        ),
    ],
    ids=["adapter gone", "base gone", "broken record", "broken variant", "adapter cut"],
)
def test_what_is_broken_fails_and_names_itself(store: Store, breaking: Callable[[Store], Any], rows: set[str]) -> None:
    breaking(store)
    found = checked(store)
    assert {name for name, check in found.items() if check.level is Level.FAIL} == rows
    assert all(check.remedy for check in found.values() if check.level is not Level.OK)


def test_only_deep_sees_a_changed_byte(store: Store) -> None:
    blob = store.places.blobs.path(store.get_adapter("style").digest)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    assert checked(store)["artifacts"].level is Level.OK
    assert checked(store, deep=True)["adapter llama/style"].level is Level.FAIL


def test_no_weights_are_read_unless_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> str:
        raise AssertionError("a file with a record was hashed")

    monkeypatch.setattr("warmline.digests.hash_descriptor", forbidden)
    monkeypatch.setattr("warmline.store.upkeep.digest_of", forbidden)
    assert checked(store)["variant llama/acme"].level is Level.WARN


def test_time_is_up(store: Store) -> None:
    (check,) = VariantChecks(store, time.monotonic() - 1, deep=False).run()
    assert (check.level, "--deep" in check.remedy) == (Level.WARN, True)


@pytest.mark.parametrize(("deep", "probe"), [(True, False), (False, True)])
def test_who_asks_for_what_takes_longer_is_told_of_every_variant(
    store: Store, monkeypatch: pytest.MonkeyPatch, deep: bool, probe: bool
) -> None:
    monkeypatch.setattr(doctor, "_VARIANTS", -1.0)

    def names(deep: bool, probe: bool) -> set[str]:
        return {check.name for check in doctor._all(deep, probe)}

    assert "variant llama/acme" not in names(False, False)
    assert "variant llama/acme" in names(deep, probe)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize(("mode", "level"), [(0o700, Level.OK), (0o755, Level.WARN), (0o777, Level.FAIL)])
def test_the_store_is_closed_to_others(home: Path, mode: int, level: Level) -> None:
    home.chmod(mode)
    assert storage.permissions(home).level is level


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    assert storage.permissions(tmp_path / "f").level is Level.FAIL


def test_unreadable_approvals(home: Path) -> None:
    (home / "trust.json").write_text("[]")
    assert storage.approvals(Store(home)).level is Level.FAIL


def test_what_a_crash_left_is_found_and_swept(warmline: Run, store: Store, home: Path) -> None:
    left = home / "staging/tmpabc"
    left.mkdir(parents=True)
    (left / "0").write_bytes(b"x" * 100)
    loose = home / "blobs/sha256" / ("0" * 64)
    loose.write_bytes(b"loose")
    os.utime(left, (1, 1))
    assert storage.leftovers(store).level is Level.WARN
    assert storage.blobs(store).level is Level.WARN
    swept = warmline("doctor", "--sweep", "--json").json["swept"]
    assert {Path(path).name for path in swept["removed"]} == {"tmpabc", "0" * 64}
    assert storage.leftovers(store).level is Level.OK
    assert storage.blobs(store).level is Level.OK


def test_a_note_of_a_dead_process_is_stale(store: Store, home: Path) -> None:
    (home / "store.holder").write_text(json.dumps({"pid": 2**22 + 1, "what": "model add x", "since": "then"}))
    assert storage.leftovers(store).level is Level.WARN
    (home / "store.holder").write_text(json.dumps({"pid": os.getpid(), "what": "model add x", "since": "then"}))
    assert "model add x" in storage.leftovers(store).message


def test_what_crashed_the_engine_is_shown_and_released(warmline: Run, home: Path) -> None:
    digest = "sha256:" + "ab" * 32
    crashes = home / "crashes"
    crashes.mkdir()
    (crashes / "counts.json").write_text(json.dumps({digest: {"crashes": 2, "name": "evil", "last": "Fatal"}}))
    report = warmline("doctor", "--json")
    row = next(row for row in report.json["checks"] if row["check"] == "quarantine evil")
    assert (report.code, row["level"]) == (1, "fail")
    assert "warmline engine release abababababab" in row["remedy"]
    assert warmline("engine", "release", "ffffff", "--json").json["error"]["code"] == "artifact.not_quarantined"
    released = warmline("engine", "release", "abababababab", "--json").json
    assert released == {"released": [{"digest": digest, "name": "evil"}]}
    assert warmline("doctor", "--json").code == 0


def python_that(body: str, folder: Path) -> dict[str, str]:
    """An environment in which loading llama.cpp does something else."""
    package = folder / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "llama_cpp.py").write_text(body)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *(path for path in sys.path if path)])}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os; os.kill(os.getpid(), 4)", "signal 4"),
        ("raise OSError('libllama.so: wrong ELF class')", "wrong ELF class"),
        ("import time; time.sleep(60)", "does not answer"),
    ],
    ids=["illegal instruction", "cannot be loaded", "hangs"],
)
def test_a_native_library_that_fails_takes_nothing_with_it(
    warmline: Run, home: Path, tmp_path: Path, body: str, words: str
) -> None:
    began = time.monotonic()
    done = warmline("doctor", "--json", environment=python_that(body, tmp_path))
    row = next(row for row in done.json["checks"] if row["check"] == "native library")
    assert (done.code, row["level"]) == (1, "fail")
    assert words in row["message"]
    assert "vscode" in {row["check"] for row in done.json["checks"]}
    assert time.monotonic() - began < 20


def test_a_processor_without_vector_units_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert machine.processor("CPU : SSE3 = 1 | AVX2 = 1 | FMA = 1 | ").level is Level.OK
    slow = machine.processor("CPU : SSE3 = 1 | AVX2 = 0 | FMA = 1 | ")
    assert (slow.level, "without AVX2" in slow.message) == (Level.WARN, True)


def test_memory_against_the_largest_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmline.memory.available_bytes", lambda: 4 << 30)
    assert machine.memory(lambda: 1 << 30).level is Level.OK
    assert machine.memory(lambda: 3 << 30).level is Level.WARN


@pytest.mark.parametrize(("version", "level"), [("v0.11.2", Level.OK), ("v0.9.5", Level.WARN), ("x", Level.WARN)])
def test_neovim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, level: Level) -> None:
    program = tmp_path / "nvim"
    program.write_text(f"#!/bin/sh\necho 'NVIM {version}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert editors.neovim().level is level


PACKS = [
    "data/nvim/site/pack/mine/start/warmline",
    "data/nvim/lazy/warmline/editors/neovim",
    "config/nvim/pack/mine/opt/w",
]


@pytest.mark.parametrize("place", PACKS)
def test_the_neovim_plugin_is_found_in_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: Path, place: str
) -> None:
    program = tmp_path / "nvim"
    program.write_text("#!/bin/sh\necho 'NVIM v0.11.2'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    row = editors.neovim()
    assert (row.level, row.detail["plugin"], "runtimepath" in row.message) == (Level.OK, None, True)
    plugin = tmp_path / place
    shutil.copytree(repo / "editors/neovim/lua", plugin / "lua")
    assert editors.neovim().detail["plugin"] == str(plugin)


def test_the_extension_of_vscode_is_found_or_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("VSCODE_EXTENSIONS", raising=False)
    assert editors.vscode().message == "not here"
    extensions = tmp_path / ".vscode-server/extensions"
    (extensions / "someone.warmline-9.9.9").mkdir(parents=True)
    assert "code --install-extension warmline.vsix" in editors.vscode().message
    shipped = json.loads((repo / "editors/vscode/package.json").read_text())
    name = f"{shipped['publisher']}.{shipped['name']}"
    assert name == editors.EXTENSION
    here = extensions / f"{name}-{shipped['version']}"
    here.mkdir()
    assert editors.vscode().detail["extension"] is None  # a folder that an interrupted installation left
    (here / "package.json").write_text(json.dumps(shipped))
    assert editors.vscode().detail == {"extension": shipped["version"], "path": str(here)}


def test_an_approval_that_was_taken_back_while_installed_is_told(store: Store) -> None:
    assert storage.approvals(store).level is Level.OK
    TrustStore(store.home / "trust.json").remove(store.get_adapter("style").digest)
    row = storage.approvals(store)
    assert (row.level, row.detail["taken_back"]) == (Level.WARN, ["style"])
    assert "adapter llama/style, used by llama/acme" in row.message
    assert row.remedy == "warmline variant remove llama/acme; warmline adapter remove llama/style"


def test_a_folder_for_a_base_is_a_row_and_no_crash(warmline: Run, home: Path, tmp_path: Path) -> None:
    Store(home).add_model(write_base(tmp_path / "base.gguf"), "base")
    (tmp_path / "base.gguf").unlink()
    (tmp_path / "base.gguf").mkdir()
    (home / "variants/llama").mkdir(parents=True)
    (home / "variants/llama/v.json").write_text('{"name": "v", "base": {"name": "base"}}')
    done = warmline("doctor", "--json")
    failed = {row["check"]: row["message"] for row in done.json["checks"] if row["level"] == "fail"}
    assert "not a regular file" in failed["variant llama/v"]


def test_the_second_backend_is_there_or_how_to_add_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino, "installed", lambda: False)
    (row,) = openvino.checks(store, probe=False)
    assert (row.level, row.detail) == (Level.OK, {"installed": False})
    assert "pip install 'warmline[openvino]'" in row.message
    monkeypatch.setattr(openvino, "installed", lambda: True)
    monkeypatch.setattr(openvino, "package_version", lambda: "7")
    assert [row.name for row in openvino.checks(store, probe=True)] == ["openvino", "openvino cache"]
    for mixes, apart, level, said in (
        (True, True, Level.OK, "mixes adapters"),
        (False, True, Level.OK, "by itself"),
        (True, False, Level.FAIL, "not its identity's"),
    ):
        remember(store.home, Canary("7", shared_mixes=mixes, own_apart=apart))
        row = list(openvino.checks(store, probe=False))[1]
        assert row.level is level
        assert said in row.message
    remember(store.home, Canary("6", shared_mixes=True, own_apart=True))
    assert "not measured" in list(openvino.checks(store, probe=False))[1].message
