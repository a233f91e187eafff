"""What the benches of the engine host share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from figures import Target
from hosted import BenchError, Host, gauges, prompt_of
from warmline.host import process
from warmline.host.paths import host_paths


def test_a_target_is_met_at_its_limit() -> None:
    assert Target("x", 3.0, 3.0).met
    assert not Target("x", 3.01, 3.0).met
    assert Target("x", 1, 2, "ms").as_json() == {"what": "x", "value": 1, "limit": 2, "unit": "ms", "met": True}


def test_gauges_are_read_by_their_labels() -> None:
    text = (
        "# HELP warmline_state Sizes.\n"
        'warmline_state{what="queued"} 2.0\n'
        'warmline_state{what="bases"} 1.0\n'
        'warmline_requests_total{kind="complete",outcome="length"} 7.0\n'
        'warmline_requests_created{kind="complete",outcome="length"} 1.7e+09\n'
    )
    assert gauges(text) == {"queued": 2, "bases": 1}
    assert gauges(text, "warmline_requests_total") == {"complete,length": 7}
    assert gauges(text, "nothing") == {}


def test_a_host_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMLINE_HOME", "/before")
    own = process.subprocess
    host = Host()
    try:
        assert os.environ["WARMLINE_HOME"] == str(host.home)
        assert host_paths(host.home) == host.paths
        with pytest.raises(BenchError, match="another way"):
            process.subprocess.Popen(["python", "-m", "something.else"])
    finally:
        host.close()
    assert process.subprocess is own
    assert os.environ["WARMLINE_HOME"] == "/before"
    assert not host.folder.exists()


async def test_the_host_that_is_started_is_the_engines_own_with_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    engine = host.engine()
    try:
        found = await engine.info()
        assert found.pid == host.pid
        assert (await engine.status()).state.value == "empty"
        assert host.memory()["rss"] > host.memory()["anonymous"] > 0
        assert host.clock.read()["decodes"] == 0
        assert host.stop() > 0
        assert not await host.running()
    finally:
        await engine.close()
        host.close()


@pytest.mark.model
def test_a_prompt_is_as_long_as_asked(base_gguf: Path) -> None:
    short, long = prompt_of(base_gguf, 50), prompt_of(base_gguf, 100)
    assert long.startswith(short)
    assert 50 < len(short) < len(long)
    with pytest.raises(BenchError, match="tokens"):
        prompt_of(base_gguf, 10**6)
