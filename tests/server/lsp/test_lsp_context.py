"""Context beyond the file: of what was seen in the folder, in an order that keeps prompts warm, without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted import Room
from typist import Typist, settle

Make = Callable[..., Room]

LEDGER = "def balance(account):\n    return ledger[account]\n"
RATES = "def rate(currency):\n    return rates[currency]\n"


@pytest.fixture
def room(room: Make) -> Make:
    """A room whose model gets excerpts of other documents."""
    return lambda *arguments, **options: room(*arguments, **{"suggest": {"contextExcerpts": 4}, **options})


async def test_what_was_looked_at_before_is_context_for_what_comes_after(room: Make) -> None:
    one = room("1")
    assert await Typist(one, LEDGER, "src/ledger.py").ghost()
    assert await Typist(one, "x = ", "src/a.py").ghost()
    first, second = one.engine.requests
    assert (first.context, first.header) == ((), "")
    assert second.context == (f"# src/ledger.py\n{LEDGER}\n",)
    assert second.header == "# src/a.py\n"


async def test_it_only_grows_at_its_end_and_not_while_a_person_types(room: Make) -> None:
    one = room("1")
    assert await Typist(one, LEDGER, "src/ledger.py").ghost()
    assert await Typist(one, RATES, "src/rates.py").ghost()
    person = Typist(one, "x = ", "src/a.py")
    for key in "abc":
        person.type(key)
        assert await person.ghost()
    contexts = [request.context for request in one.engine.requests[2:]]
    assert contexts == [(f"# src/ledger.py\n{LEDGER}\n", f"# src/rates.py\n{RATES}\n")] * 3


async def test_going_back_and_forth_adds_nothing_twice(room: Make) -> None:
    one = room("1")
    ledger = Typist(one, LEDGER, "src/ledger.py")
    person = Typist(one, "x = ", "src/a.py")
    for _ in range(4):
        assert await ledger.ghost()
        ledger.type("#")
        assert await person.ghost()
        person.type("y")
    assert await person.ghost()
    assert len(one.engine.requests[-1].context) == 1


async def test_a_folder_never_sees_another_folders_text(room: Make) -> None:
    one = room("1")
    one.write(one.root / "inner" / ".warmline" / "config.json", {"variant": "plain"})
    assert await Typist(one, LEDGER, "src/ledger.py").ghost()
    assert await Typist(one, "x = ", "inner/a.py").ghost()
    assert one.engine.requests[-1].context == ()


async def test_prefilled_is_the_prompt_that_is_asked_for_then(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from lsprotocol import types
    from warmline_server.lsp import prewarming

    monkeypatch.setattr(prewarming, "DELAY", 0.0)
    one = room("1")
    assert await Typist(one, LEDGER, "src/ledger.py").ghost()
    person = Typist(one, "x = ", "src/a.py")
    assert await person.ghost()
    one.session.prewarm.moved(person.uri, types.Position(0, 4))
    await one.engine.guessed.wait()
    assert one.engine.prewarmed[-1] == one.engine.requests[-1]


async def test_none_unless_it_is_set(room: Make) -> None:
    one = room("1", suggest={})
    assert await Typist(one, LEDGER, "src/ledger.py").ghost()
    assert await Typist(one, "x = ", "src/a.py").ghost()
    assert (one.engine.requests[-1].context, one.engine.requests[-1].header) == ((), "")


async def test_a_document_that_is_closed_leaves_what_was_looked_at(room: Make) -> None:
    one = room("1")
    ledger = Typist(one, LEDGER, "src/ledger.py")
    await settle()
    await ledger.close()
    assert await Typist(one, "x = ", "src/a.py").ghost()
    assert one.engine.requests[-1].context == (f"# src/ledger.py\n{LEDGER}\n",)


# -- secrets ---------------------------------------------------------------------------------------------------------

KEY = "API_KEY=sk-live-0123456789\nexport PASSWORD=hunter2\n"
NAMES = (".env", ".env.local", "server.pem", "id_rsa", "credentials.json", ".netrc", "private.key", ".ssh/config")


def sent(room: Room) -> str:
    return "".join(request.model_dump_json() for request in [*room.engine.requests, *room.engine.prewarmed])


@pytest.mark.parametrize("name", NAMES)
async def test_no_text_of_a_secret_file_reaches_the_model(room: Make, name: str) -> None:
    one = room("1")
    secret = Typist(one, KEY, name, "plaintext")
    assert await secret.ghost() is None
    assert one.memory.statuses[-1]["suggestion"] == "secret"
    secret.type("MORE=")
    assert await secret.ghost(automatic=True) is None
    assert await Typist(one, "x = ").ghost() == "1"
    await secret.close()
    await asyncio.sleep(0.15)  # longer than a guess waits
    assert "hunter2" not in sent(one)
    assert "sk-live" not in sent(one)
    assert "hunter2" not in str(one.memory.logs) + str(one.memory.statuses)


async def test_more_names_of_secrets_are_a_setting_and_an_exception_frees_none(room: Make) -> None:
    one = room("1", suggest={"secretPaths": ["vault/**"], "enabledPaths": ["**"]})
    for name in ("vault/a.py", ".env"):
        assert await Typist(one, KEY, name).ghost() is None
        assert one.memory.statuses[-1]["suggestion"] == "secret"
    assert "hunter2" not in sent(one)


async def test_a_link_to_a_secret_is_one(room: Make, tmp_path: Path) -> None:
    one = room("1")
    (one.root / ".env").write_text(KEY)
    (one.root / "harmless.txt").symlink_to(one.root / ".env")
    assert await Typist(one, KEY, "harmless.txt").ghost() is None
    assert sent(one) == ""


async def test_a_document_that_is_off_is_no_context_either(room: Make) -> None:
    one = room("1", suggest={"disabledPaths": ["*.txt"]})
    assert await Typist(one, KEY, "notes.txt", "plaintext").ghost() is None
    assert await Typist(one, "x = ").ghost() == "1"
    assert "hunter2" not in sent(one)
