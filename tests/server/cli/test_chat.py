"""`warmline chat`: one turn, streamed to people, whole for programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from smollm2 import PACKAGE
from warmline.host.wire import Delta, Done, Outcome
from warmline.variant import Profile, Reasoning, ResolvedBase, ResolvedVariant
from warmline_server.cli import chat
from warmline_server.cli.output import Output

Run = Callable[..., Any]
KEYS = {"variant", "identity", "text", "outcome", "reason", "prompt_tokens", "reused_tokens", "reused_estimated"} | {
    "predicted_tokens",
    "thought",
    "ttft_ms",
    "total_ms",
}


@pytest.fixture
def ready(warmline: Run) -> Run:
    """A store whose default variant is SmolLM2 alone."""
    assert warmline("model", "add", PACKAGE, "--name", "smollm2").code == 0
    assert warmline("variant", "add", "plain", "--base", "smollm2").code == 0
    assert warmline("config", "set", "default-variant", "plain").code == 0
    return warmline


@pytest.mark.model
def test_one_turn(ready: Run) -> None:
    done = ready("chat", "Say hello.", "--max-tokens", "8", "--json")
    assert done.code == 0, done.out
    answer = done.json
    assert set(answer) == KEYS
    assert (answer["variant"], answer["predicted_tokens"]) == ("plain", 8)
    assert answer["text"]
    person = ready("chat", "--max-tokens", "8", stdin="Say hello.\n")
    assert person.out == answer["text"] + "\n"
    assert "plain" in person.err
    other = ready("chat", "Say hello.", "--system", "You are a pirate.", "--max-tokens", "8", "--json").json
    assert other["prompt_tokens"] != answer["prompt_tokens"]


@pytest.mark.model
def test_it_asks_the_variant_that_the_workspace_chats_with(ready: Run, tmp_path: Path) -> None:
    assert ready("variant", "add", "talker", "--base", "smollm2").code == 0
    (tmp_path / "ws/.warmline").mkdir(parents=True)
    (tmp_path / "ws/.warmline/config.json").write_text('{"variant": "plain", "chat": "talker"}')
    there = tmp_path / "ws"
    assert ready("chat", "Hi", "--max-tokens", "2", "--json", cwd=there).json["variant"] == "talker"
    assert ready("status", "--json", cwd=there).json["variant"] == "plain"


@pytest.mark.model
def test_it_streams(ready: Run, entry: list[str]) -> None:
    """The first words are there while the rest is still to come."""
    running = subprocess.Popen(
        [*entry, "chat", "Count from one to fifty, in words.", "--max-tokens", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert running.stdout is not None
    first = os.read(running.stdout.fileno(), 4096)
    assert running.poll() is None
    rest = running.stdout.read()
    assert running.wait(timeout=120) == 0
    assert first.strip()
    assert len(rest) > len(first)


@pytest.mark.parametrize("arguments", [[""], ["  "], ["-"], ["x", "--max-tokens", "0"]], ids=str)
def test_nothing_to_say_is_wrong_usage(warmline: Run, arguments: list[str]) -> None:
    assert warmline("chat", *arguments, "--json").code == 2


def test_no_variant_is_said_before_an_engine_is_started(warmline: Run, home: Path) -> None:
    assert warmline("chat", "x", "--json").json["error"]["code"] == "config.no_workspace"
    assert warmline("chat", "x", "--variant", "gone", "--json").json["error"]["code"] == "variant.unknown"
    assert not (home / "logs").exists()


def test_a_thought_goes_beside_the_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Thinker:
        async def load(self, _variant: object) -> None: ...

        async def chat(self, _request: object) -> AsyncIterator[Delta | Done]:
            text = "<think>Hm,\nwell.</think>\n\nYes."
            for sign in text:
                yield Delta(text=sign)
            yield Done(outcome=Outcome.STOP, text=text, predicted_tokens=9, total_ms=1.0)

    @contextlib.asynccontextmanager
    async def thinker(_output: Output) -> AsyncIterator[Thinker]:
        yield Thinker()

    monkeypatch.setattr("warmline_server.cli.session.engine", thinker)
    base = ResolvedBase(name="base", path=Path("base.gguf"))
    profile = Profile(reasoning=Reasoning())
    variant = ResolvedVariant(name="v", backend="llama", base=base, adapters=(), profile=profile, file="v.json")
    _, answer = asyncio.run(chat._turn(Output(), variant, "Well?", None, 512))
    assert (answer.text, answer.thought) == ("Yes.", "Hm,\nwell.")
    captured = capsys.readouterr()
    assert captured.out == "Yes.\n"
    assert "Hm,\nwell.\n" in captured.err


def test_an_answer_that_goes_round_in_circles_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has more to say, and is not asked for it; the outcome says why."""
    left: list[bool] = []

    class Endless:
        async def load(self, _variant: object) -> None: ...

        async def chat(self, _request: object) -> AsyncIterator[Delta]:
            try:
                while True:
                    yield Delta(text=" amen.\n")
            finally:
                left.append(True)

    @contextlib.asynccontextmanager
    async def endless(_output: Output) -> AsyncIterator[Endless]:
        yield Endless()

    monkeypatch.setattr("warmline_server.cli.session.engine", endless)
    base = ResolvedBase(name="base", path=Path("base.gguf"))
    variant = ResolvedVariant(name="v", backend="llama", base=base, adapters=(), profile=Profile(), file="v.json")
    started, answer = asyncio.run(chat._turn(Output(as_json=True), variant, "Say amen.", None, 512))
    assert started is None
    assert (answer.outcome, answer.text, left) == ("repeats", " amen.\n" * 14, [True])
