"""The engine is asked which exact variant answers only when a file may have been touched since it said so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from warmline.errors import ArtifactError
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant
from warmline_server.lsp import identities
from warmline_server.lsp.identities import Identities


class Engine:
    """Counts how often it is asked, and gives a number that a test sets."""

    def __init__(self) -> None:
        self.asked = 0
        self.identity = "one"

    async def __call__(self, _variant: ResolvedVariant) -> str:
        self.asked += 1
        if not self.identity:
            raise ArtifactError("it is gone", code="artifact.missing")
        return self.identity


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def known(tmp_path: Path, engine: Engine) -> Identities:
    return Identities(tmp_path, engine)


def variant(folder: Path, backend: str = "llama") -> ResolvedVariant:
    base, adapter = folder / "base", folder / "adapter"
    if backend == "llama":
        base.write_bytes(b"base")
        adapter.write_bytes(b"adapter")
    else:
        for each in (base, adapter):
            each.mkdir()
            (each / "weights").write_bytes(b"1")
            (each / "config.json").write_bytes(b"{}")
        adapter = adapter / "weights"
    return ResolvedVariant(
        name="v",
        backend=backend,
        base=ResolvedBase(name="b", path=base),
        adapters=(ResolvedAdapter(name="a", path=adapter, scale="1"),),
        profile=Profile(),
        file=str(folder / "v.json"),
    )


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough after the test's files were written that another write would leave a trace."""
    now = time.time
    monkeypatch.setattr(identities.time, "time", lambda: now() + 60)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("backend", ["llama", "openvino"])
async def test_it_is_asked_once_while_no_file_is_touched(
    known: Identities, engine: Engine, tmp_path: Path, backend: str
) -> None:
    one = variant(tmp_path, backend)
    assert [await known.of(one) for _ in range(3)] == ["one"] * 3
    assert engine.asked == 1


async def test_it_is_asked_each_time_while_a_file_is_fresh(known: Identities, engine: Engine, tmp_path: Path) -> None:
    one = variant(tmp_path)
    await known.of(one)
    await known.of(one)
    assert engine.asked == 2


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("name", ["base", "adapter"])
async def test_a_file_of_the_same_size_with_its_mtime_restored_is_noticed(
    known: Identities, engine: Engine, tmp_path: Path, name: str
) -> None:
    one = variant(tmp_path)
    await known.of(one)
    path = tmp_path / name
    before = path.stat()
    deadline = time.monotonic() + 5
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock is coarse
        path.write_bytes(bytes(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert time.monotonic() < deadline
    engine.identity = "two"
    assert await known.of(one) == "two"


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("name", ["base/more", "adapter/config.json"])
async def test_each_file_of_a_folder_counts(known: Identities, engine: Engine, tmp_path: Path, name: str) -> None:
    one = variant(tmp_path, "openvino")
    await known.of(one)
    (tmp_path / name).write_bytes(b"another")
    engine.identity = "two"
    assert await known.of(one) == "two"


@pytest.mark.usefixtures("later")
async def test_approvals_count(known: Identities, engine: Engine, tmp_path: Path) -> None:
    one = variant(tmp_path)
    await known.of(one)
    (tmp_path / "trust.json").write_bytes(b"{}")
    await known.of(one)
    assert engine.asked == 2


@pytest.mark.usefixtures("later")
async def test_an_error_is_raised_each_time_and_never_kept(known: Identities, engine: Engine, tmp_path: Path) -> None:
    one = variant(tmp_path)
    engine.identity = ""
    for _ in range(2):
        with pytest.raises(ArtifactError):
            await known.of(one)
    engine.identity = "one"
    assert await known.of(one) == "one"
    (tmp_path / "base").unlink()
    engine.identity = ""
    with pytest.raises(ArtifactError):
        await known.of(one)


@pytest.mark.usefixtures("later")
async def test_another_engine_is_asked_anew(known: Identities, engine: Engine, tmp_path: Path) -> None:
    one = variant(tmp_path)
    await known.of(one)
    known.forget()
    engine.identity = "two"
    assert await known.of(one) == "two"


@pytest.mark.usefixtures("later")
async def test_what_was_learnt_needs_no_question(known: Identities, engine: Engine, tmp_path: Path) -> None:
    one = variant(tmp_path)
    known.learn(one, known.footing(one), "learnt")
    assert await known.of(one) == "learnt"
    known.learn(one, None, "of files nobody looked at")
    assert await known.of(one) == "learnt"
    assert engine.asked == 0
