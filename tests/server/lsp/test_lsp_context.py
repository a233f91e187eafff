"""Context beyond the file: of what was seen in the folder, in an order that keeps prompts warm, without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from lsprotocol import types
from scripted import Room, inline_params
from typist import Typist, settle
from warmline_server.lsp import prewarming, rename, speculating
from warmline_server.lsp.inline_completion import inline_completion

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


@pytest.mark.parametrize("name", ["secretPaths", "disabledPaths", "disabledLanguages"])
@pytest.mark.parametrize("value", [5, [7], {"*.tok": True}])
async def test_while_it_cannot_be_read_what_is_kept_back_nothing_is_sent(room: Make, name: str, value: object) -> None:
    one = room("1", suggest={"contextExcerpts": 4, name: value})
    assert f"warmline.suggest.{name}" in str(one.memory.messages)
    secret = Typist(one, KEY, "live.tok", "plaintext")
    assert await secret.ghost() is None
    assert one.memory.statuses[-1]["suggestion"] in ("secret", "off:path", "off:language")
    assert await Typist(one, "x = ", "src/a.py").ghost() is None
    assert sent(one) == ""
    one.session.configure({"suggest": {"candidates": 1, name: ["*.tok"]}})
    assert await Typist(one, "y = ", "src/b.py").ghost()


@pytest.mark.parametrize("value", ["*.tok", ["*.tok", 5]])
async def test_the_patterns_that_can_be_read_are_in_force(room: Make, value: object) -> None:
    one = room("1", suggest={"contextExcerpts": 4, "secretPaths": value})
    assert await Typist(one, KEY, "live.tok", "plaintext").ghost() is None
    assert one.memory.statuses[-1]["suggestion"] == "secret"
    assert await Typist(one, "x = ", "src/a.py").ghost()
    assert "hunter2" not in sent(one)
    assert len(one.memory.messages) == isinstance(value, list)


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


def renamed(room: Room, old: str, new: str) -> None:
    files = [types.FileRename(room.uri(old), room.uri(new))]
    rename.did_rename_files(room.ls, types.RenameFilesParams(files))


@pytest.mark.parametrize(
    ("old", "new"), [("src/tmp.py", "src/.env"), ("src", ".ssh")], ids=["the document", "its folder"]
)
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
async def test_what_was_renamed_to_a_secret_is_context_no_more(room: Make, old: str, new: str, closed: bool) -> None:
    one = room("1")
    secret = Typist(one, KEY, "src/tmp.py")
    assert await secret.ghost()
    person = Typist(one, "x = ", "a.py")
    assert await person.ghost()
    assert "hunter2" in str(one.engine.requests[-1].context)
    if closed:
        await secret.close()
    renamed(one, old, new)
    await settle()
    person.type("y")
    assert await person.ghost()
    assert one.engine.requests[-1].context == ()


async def test_a_document_renamed_while_git_is_asked_is_not_kept(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = room("1", suggest={"contextExcerpts": 4, "skipGitignored": True})
    answers = asyncio.Event()

    async def ignores(path: Path) -> bool:
        await answers.wait()
        return False

    secret = Typist(one, KEY, "src/tmp.py")
    await settle()
    monkeypatch.setattr(one.session.suggesting.git, "ignores", ignores)
    await secret.close()
    await settle()
    renamed(one, "src/tmp.py", ".env")
    answers.set()
    await settle()
    assert await Typist(one, "x = ").ghost()
    assert one.engine.requests[-1].context == ()


@pytest.mark.parametrize("later", [{"secretPaths": ["tmp.py"]}, {"disabledLanguages": ["python"]}])
async def test_what_the_settings_refuse_later_is_context_no_more(room: Make, later: dict[str, list[str]]) -> None:
    one = room("1")
    assert await Typist(one, KEY, "src/tmp.py").ghost()
    person = Typist(one, "x = ", "src/a.txt", "plaintext")
    assert await person.ghost()
    assert "hunter2" in str(one.engine.requests[-1].context)
    one.session.configure({"suggest": {"candidates": 1, "speculate": False, "contextExcerpts": 4, **later}})
    person.type("y")
    assert await person.ghost()
    assert one.engine.requests[-1].context == ()


@pytest.mark.parametrize("change", ["rename", "secretPaths", "speculate", "nothing"])
async def test_no_guess_about_what_became_a_secret(room: Make, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(speculating, "DELAY", 0.02)
    one = room("abc", suggest={"speculate": True})
    person = Typist(one, "x = ")
    assert await person.ghost()
    if change == "rename":
        renamed(one, "src/a.py", ".env")
    elif change == "secretPaths":
        one.session.configure({"suggest": {"candidates": 1, "secretPaths": ["a.py"]}})
    elif change == "speculate":
        one.session.configure({"suggest": {"candidates": 1, "speculate": False}})
    await asyncio.sleep(0.06)
    assert len(one.engine.requests) == (2 if change == "nothing" else 1)


async def test_a_guess_asks_for_the_refusals_once_more(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculating, "DELAY", 0.02)
    one = room("abc", suggest={"speculate": True})
    assert await Typist(one, "x = ").ghost()
    (one.root / ".env").touch()
    (one.root / "src" / "a.py").symlink_to(one.root / ".env")
    await asyncio.sleep(0.06)
    assert len(one.engine.requests) == 1


@pytest.mark.parametrize("uri", ["untitled:/ws/.env", "untitled:.env", "untitled:/id_rsa", "untitled:/ws/%2Eenv"])
async def test_a_document_without_a_file_may_be_a_secret_by_its_name(room: Make, uri: str) -> None:
    one = room("1")
    one.session.variants.roots = (one.root,)
    for each in (uri, "untitled:Untitled-1"):
        one.session.documents.open(each, "plaintext", 1, KEY)
        await inline_completion(one.ls, inline_params(each, 2, 0))
    assert [request.document for request in one.engine.requests] == ["untitled:Untitled-1"]


# -- declarations ----------------------------------------------------------------------------------------------------

DECLARED = {"contextExcerpts": 0, "contextDeclarations": 2000}
BANK = "class Bank:\n    def pay(self, amount,\n            to):\n        return 1\n\ndef main(): ...\n"
BANK_DECLARES = "# src/bank.py\nclass Bank:\n    def pay(self, amount, to):\ndef main(): ...\n\n"


async def test_what_documents_declare_is_context_once_it_is_wanted(room: Make) -> None:
    one = room("1", suggest=DECLARED)
    assert await Typist(one, BANK, "src/bank.py").ghost()
    assert await Typist(one, "no code\n", "src/notes.txt", "plaintext").ghost()
    person = Typist(one, "x = ", "src/a.py")
    assert await person.ghost()
    asked = one.engine.requests[-1]
    assert (asked.context, asked.header) == ((BANK_DECLARES,), "# src/a.py\n")
    assert one.memory.statuses[-1]["last"]["sources"] == ["src/bank.py (declarations)"]


async def test_declarations_stay_where_they_are_while_documents_grow(room: Make) -> None:
    one = room("1", suggest=DECLARED)
    bank, person = Typist(one, BANK, "src/bank.py"), Typist(one, "x = ", "src/a.py")
    assert await person.ghost()
    for number in range(3):
        bank.type(f"\ndef more_{number}(): ...")
        assert await bank.ghost()
        person.type("y")
        assert await person.ghost()
    contexts = [request.context for request in one.engine.requests if request.document == person.uri]
    assert [len(context) for context in contexts] == [1, 2, 3, 4]
    assert all(later[: len(before)] == before for before, later in pairwise(contexts))
    assert contexts[-1][-1] == "# src/bank.py\ndef more_2(): ...\n\n"


async def test_lines_and_declarations_of_one_document_repeat_nothing(room: Make) -> None:
    one = room("1", suggest={"contextExcerpts": 4, "contextDeclarations": 2000, "contextLines": 4})
    bank = Typist(one, BANK + "\n" * 40 + LEDGER, "src/bank.py")
    assert await bank.ghost()
    assert await Typist(one, "x = ", "src/a.py").ghost()
    lines, declared = one.engine.requests[-1].context
    assert lines == f"# src/bank.py\n{LEDGER}\n"
    assert declared == BANK_DECLARES
    assert one.memory.statuses[-1]["last"]["sources"] == ["src/bank.py", "src/bank.py (declarations)"]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("deploy/secrets.py", {}),
        ("src/key.py", {"secretPaths": ["key.py"]}),
        ("src/key.py", {"disabledPaths": ["key.py"]}),
        ("src/key.py", {"secretPaths": 5}),
    ],
)
async def test_no_declaration_of_a_secret_or_disabled_document(room: Make, name: str, more: dict[str, object]) -> None:
    one = room("1", suggest={**DECLARED, **more})
    assert await Typist(one, 'def login(password="hunter2"): ...\n', name).ghost() is None
    await Typist(one, "x = ").ghost()
    assert "hunter2" not in sent(one)


@pytest.mark.parametrize("how", ["rename", "settings"])
async def test_declarations_of_what_became_a_secret_are_gone(room: Make, how: str) -> None:
    one = room("1", suggest=DECLARED)
    assert await Typist(one, 'def login(password="hunter2"): ...\n', "src/tmp.py").ghost()
    person = Typist(one, "x = ")
    assert await person.ghost()
    assert "hunter2" in str(one.engine.requests[-1].context)
    if how == "rename":
        renamed(one, "src/tmp.py", "src/.env")
    else:
        one.session.configure({"suggest": {"candidates": 1, **DECLARED, "secretPaths": ["tmp.py"]}})
    await settle()
    person.type("y")
    assert await person.ghost()
    assert one.engine.requests[-1].context == ()
