"""Which variant answers, what is loaded when, and how errors come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, describe, inline_params
from warmline.errors import ArtifactError, BackendError, TrustError
from warmline.host.wire import EngineStatus, ErrorInfo, State
from warmline_server.lsp import focus, hover, sync, watched_files, workspace_folders
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.inline_completion import inline_completion
from warmline_server.lsp.status import StatusReport
from warmline_server.lsp.variants import Place
from warmline_server.lsp.watched_files import registration

Make = Callable[..., Room]


async def shown(room: Room, uri: str) -> bool:
    return bool(await inline_completion(room.ls, inline_params(uri, 0, 4)))


def opened(room: Room, uri: str, text: str = "x = ") -> None:
    sync.did_open(room.ls, types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))


async def test_opening_a_document_loads_its_variant_once(room: Make) -> None:
    one = room("1")
    opened(one, one.uri("src/a.py"))
    await one.engine.asked.wait()
    await asyncio.sleep(0)
    opened(one, one.uri("src/b.py"))
    assert await shown(one, one.uri("src/b.py"))
    assert [variant.name for variant in one.engine.loads] == ["acme"]


async def test_an_error_shows_when_the_document_opens_and_goes_when_the_file_is_mended(room: Make) -> None:
    one = room("1")
    one.select("acne")
    opened(one, one.uri())
    config = one.config.as_uri()
    await one.memory.until(lambda memory: memory.diagnostics.get(config))
    [item] = one.memory.diagnostics[config]
    assert item.code == "variant.unknown"
    assert "Did you mean `acme`?" in item.message
    assert (item.range.start.line, item.range.start.character) == (1, 13)
    assert one.memory.statuses[-1]["variant"] == "acne"
    one.select("acme")
    watched_files.did_change_watched_files(
        one.ls, types.DidChangeWatchedFilesParams([types.FileEvent(config, types.FileChangeType.Changed)])
    )
    await one.memory.until(lambda memory: memory.diagnostics.get(config) == [])
    assert one.memory.statuses[-1]["error"] is None


async def test_without_any_watcher_the_next_request_sees_the_mended_file(room: Make) -> None:
    one = room("1")
    one.write(one.config, '{"variant": ')
    uri = one.open("x = ")
    assert not await shown(one, uri)
    one.select("plain")
    assert await shown(one, uri)
    assert one.engine.requests[-1].variant.name == "plain"
    assert one.memory.diagnostics[one.config.as_uri()] == []


async def test_each_request_runs_the_variant_that_the_file_names_now(room: Make) -> None:
    one = room("1")
    for number, name in enumerate(("acme", "plain", "acme")):
        one.select(name)
        assert await shown(one, one.open("x = ", f"src/{number}.py"))
    assert [request.variant.name for request in one.engine.requests] == ["acme", "plain", "acme"]


async def test_saving_a_workspace_file_looks_again(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    assert await shown(one, uri)
    one.select("plain")
    saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(one.config.as_uri()))
    sync.did_save(one.ls, saved)
    await one.engine.asked.wait()
    other = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
    sync.did_save(one.ls, other)
    assert await shown(one, uri)
    assert [variant.name for variant in one.engine.loads] == ["plain"]


async def test_many_changes_in_a_row_make_one_more_load(room: Make) -> None:
    one = room("1")
    opened(one, one.uri())
    for _ in range(50):
        one.session.refresh()
    await one.engine.asked.wait()
    assert await shown(one, one.uri())
    assert len(one.engine.loads) <= 2


async def test_a_late_failure_of_an_earlier_try_does_not_hide_a_later_success(room: Make) -> None:
    one = room("1")
    place = one.session.variants.place(one.uri())
    assert isinstance(place, Place)
    early, late = one.session.begin(place), one.session.begin(place)
    one.session.worked(late, one.session.variants.resolve(place))
    one.session.failed(early, None, ArtifactError("gone"))
    assert one.session.status.report().error is None


async def test_without_a_workspace_there_is_nothing_and_a_reason(room: Make, tmp_path: Path) -> None:
    one = room("1")
    uri = (tmp_path / "elsewhere.py").as_uri()
    one.session.documents.open(uri, "python", 1, "x = ")
    assert not await shown(one, uri)
    assert one.memory.statuses[-1]["suggestion"] == "no-workspace"
    one.variant("default", {"base": {"path": str(one.base)}})
    assert await shown(one, uri)
    assert one.engine.requests[-1].variant.name == "default"


async def test_each_document_has_the_variant_of_its_own_folder(room: Make) -> None:
    one = room("1")
    one.write(one.root / "inner" / ".warmline" / "config.json", {"variant": "plain"})
    outer, inner = one.open("x = "), one.open("x = ", "inner/b.py")
    assert await shown(one, outer)
    assert await shown(one, inner)
    assert [request.variant.name for request in one.engine.requests] == ["acme", "plain"]


async def test_an_error_in_one_folder_is_not_anothers(room: Make) -> None:
    one = room("1")
    one.write(one.root / "inner" / ".warmline" / "config.json", {"variant": "nope"})
    outer, inner = one.open("x = "), one.open("x = ", "inner/b.py")
    assert not await shown(one, inner)
    assert one.memory.statuses[-1]["state"] == "failed"
    assert await shown(one, outer)
    assert one.memory.statuses[-1]["error"] is None
    inner_config = one.root / "inner" / ".warmline" / "config.json"
    assert len(one.memory.diagnostics[inner_config.as_uri()]) == 1


async def test_untitled_documents_use_the_first_workspace_folder(room: Make) -> None:
    one = room("1")
    one.session.documents.open("untitled:Untitled-1", "python", 1, "x = ")
    assert not await shown(one, "untitled:Untitled-1")
    folder = types.WorkspaceFolder(one.root.as_uri(), "ws")
    event = types.WorkspaceFoldersChangeEvent(added=[folder], removed=[])
    workspace_folders.did_change_workspace_folders(one.ls, types.DidChangeWorkspaceFoldersParams(event))
    assert await shown(one, "untitled:Untitled-1")
    gone = types.WorkspaceFoldersChangeEvent(added=[], removed=[folder])
    workspace_folders.did_change_workspace_folders(one.ls, types.DidChangeWorkspaceFoldersParams(gone))
    assert not await shown(one, "untitled:Untitled-1")


async def test_closing_a_document_stops_its_decode(room: Make) -> None:
    one = room("1")
    one.engine.gate = asyncio.Event()
    uri = one.open("x = ")
    asked = asyncio.ensure_future(shown(one, uri))
    await one.engine.asked.wait()
    sync.did_close(one.ls, types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    assert not await asked
    assert one.session.documents.get(uri) is None


async def test_a_refused_change_is_logged_without_its_text(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ", version=7)
    change = types.TextDocumentContentChangeWholeDocument("very secret")
    identifier = types.VersionedTextDocumentIdentifier(version=3, uri=uri)
    sync.did_change(one.ls, types.DidChangeTextDocumentParams(identifier, [change]))
    assert len(one.memory.logs) == 1
    assert "secret" not in one.memory.logs[0]


async def test_the_engines_states_are_passed_on(room: Make) -> None:
    one = room("1")
    assert await shown(one, one.open("x = "))
    variant = one.engine.requests[0].variant
    one.engine.states.put_nowait(EngineStatus(state=State.BUSY, active=describe(variant)))
    await one.memory.until(lambda memory: memory.statuses[-1]["state"] == "busy")
    report = StatusReport.model_validate(one.memory.statuses[-1])
    assert report.variant == "acme"
    assert [(a.name, a.scale, a.effective_scale, a.verified) for a in report.adapters] == [("style", "1", "2", False)]
    assert report.base is not None
    assert report.context is not None
    # An engine that was left alone for long has let go of everything; what answers here is still this.
    assert await one.session.status_now() == {**one.memory.statuses[-1], "state": "empty"}


async def test_an_answer_that_was_overtaken_by_news_changes_nothing(room: Make) -> None:
    one = room("1")
    assert await shown(one, one.open("x = "))
    one.engine.now = EngineStatus(state=State.SWITCHING, revision=3)
    assert (await one.session.status_now())["state"] == "switching"
    one.engine.states.put_nowait(EngineStatus(state=State.READY, revision=4))
    await one.memory.until(lambda memory: memory.statuses[-1]["state"] == "ready")
    assert (await one.session.status_now())["state"] == "ready"
    # Its host is gone, and the next one counts anew.
    one.engine.states.put_nowait(EngineStatus(state=State.EMPTY))
    await one.memory.until(lambda memory: memory.statuses[-1]["state"] == "empty")
    one.engine.now = EngineStatus(state=State.BUSY, revision=1)
    assert (await one.session.status_now())["state"] == "busy"


async def test_news_that_are_sent_before_an_older_answer_are_sent_again_after_it(room: Make) -> None:
    one = room("1")
    assert await shown(one, one.open("x = "))
    answer = await asyncio.create_task(one.session.status_now())
    # Now it is made, and goes out in the next turn of the loop.
    one.session.status.follow(EngineStatus(state=State.BUSY))
    one.session.status.publish()
    assert answer["state"] != one.memory.statuses[-1]["state"] == "busy"
    told = len(one.memory.statuses)
    for _ in range(2):
        await asyncio.sleep(0)
    assert [report["state"] for report in one.memory.statuses[told:]] == ["busy"]


async def test_the_status_is_about_the_document_at_hand_whatever_the_engine_did_last(room: Make) -> None:
    one = room("1")
    one.write(one.root / "inner" / ".warmline" / "config.json", {"variant": "plain"})
    opened(one, one.uri("src/a.py"))
    await one.memory.until(lambda memory: memory.statuses and memory.statuses[-1]["identity"])
    opened(one, one.uri("inner/b.py"))
    await one.memory.until(lambda memory: memory.statuses[-1]["variant"] == "plain" and memory.statuses[-1]["identity"])
    # The engine's `active` is of whatever came last.
    acme = one.engine.loads[0]
    one.engine.states.put_nowait(EngineStatus(state=State.BUSY, active=describe(acme)))
    await one.memory.until(lambda memory: memory.statuses[-1]["state"] == "busy")
    assert (one.memory.statuses[-1]["variant"], one.memory.statuses[-1]["adapters"]) == ("plain", [])
    # Turning to the other document alone, without any request, is enough.
    focus.did_focus(one.ls, _focus(one.uri("src/a.py")))
    report = one.memory.statuses[-1]
    assert (report["variant"], [a["name"] for a in report["adapters"]]) == ("acme", ["style"])
    one.session.turn_to("file:///nowhere/at/all.py")
    report = one.memory.statuses[-1]
    assert (report["variant"], report["identity"], report["error"]) == ("", "", None)


def _focus(uri: str) -> Any:
    return SimpleNamespace(textDocument=SimpleNamespace(uri=uri), position=SimpleNamespace(line=0, character=0))


async def test_the_numbers_of_a_request_stay_with_its_variant(room: Make) -> None:
    one = room("1")
    one.write(one.root / "inner" / ".warmline" / "config.json", {"variant": "plain"})
    outer, inner = one.open("x = "), one.open("x = ", "inner/b.py")
    assert await shown(one, outer)
    assert one.memory.statuses[-1]["last"]["prompt_tokens"] == 10
    one.session.turn_to(inner)
    assert (one.memory.statuses[-1]["last"], one.memory.statuses[-1]["suggestion"]) == (None, None)
    one.session.turn_to(outer)
    assert one.memory.statuses[-1]["last"]["prompt_tokens"] == 10


async def test_the_engines_failure_elsewhere_is_not_this_documents(room: Make) -> None:
    one = room("1")
    assert await shown(one, one.open("x = "))
    error = ErrorInfo(code="artifact.missing", message="gone", file="/elsewhere/adapter.gguf")
    one.engine.now = EngineStatus(state=State.FAILED, active=describe(one.engine.requests[0].variant), error=error)
    report = await one.session.status_now()
    assert (report["state"], report["variant"], report["error"]) == ("ready", "acme", None)


@pytest.mark.parametrize("watched", [True, False])
async def test_a_workspace_file_that_is_removed_takes_its_error_along(room: Make, watched: bool) -> None:
    one = room("1")
    one.select("acne")
    uri = one.open("x = ")
    assert not await shown(one, uri)
    assert one.memory.statuses[-1]["state"] == "failed"
    one.config.unlink()
    if watched:
        event = types.FileEvent(one.config.as_uri(), types.FileChangeType.Deleted)
        watched_files.did_change_watched_files(one.ls, types.DidChangeWatchedFilesParams([event]))
    else:
        assert not await shown(one, uri)
        assert one.memory.statuses[-1]["suggestion"] == "no-workspace"
    report = one.memory.statuses[-1]
    assert (report["state"], report["variant"], report["error"]) == ("empty", "", None)
    assert one.memory.diagnostics[one.config.as_uri()] == []
    one.select("acme")
    if watched:
        event = types.FileEvent(one.config.as_uri(), types.FileChangeType.Created)
        watched_files.did_change_watched_files(one.ls, types.DidChangeWatchedFilesParams([event]))
        await one.engine.asked.wait()
    assert await shown(one, uri)
    assert one.memory.statuses[-1]["variant"] == "acme"


async def test_a_removal_during_a_load_leaves_no_error_behind(room: Make) -> None:
    one = room("1")
    one.select("acne")
    opened(one, one.uri())
    one.config.unlink()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(one.memory.diagnostics.values())
    assert one.memory.statuses[-1]["error"] is None


async def test_an_engine_that_finds_no_folder_to_work_in_is_a_typed_error(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("1")
    one.engine.error = NotADirectoryError(20, "Not a directory", "/dev/null/logs")
    uri = one.open("x = ")
    assert not await shown(one, uri)
    monkeypatch.setattr(one.engine, "status", one.engine.load)
    error = (await one.session.status_now())["error"]
    assert (error["code"], error["file"]) == ("config.unreadable", "/dev/null/logs")
    params = types.HoverParams(types.TextDocumentIdentifier(one.config.as_uri()), types.Position(0, 0))
    answer = await hover.hover(one.ls, params)
    assert answer is not None
    assert "config.unreadable: it cannot be accessed: Not a directory" in answer.contents.value  # type: ignore[union-attr]


async def test_a_store_that_may_not_be_read_is_a_typed_error_and_no_failed_request(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("1")

    def closed(*_: object, **_named: object) -> Any:
        raise PermissionError(13, "Permission denied", str(one.home / "variants"))

    monkeypatch.setattr("warmline_server.lsp.variants.default_variant", closed)
    monkeypatch.setattr("warmline_server.lsp.variants.Store.resolve_workspace", closed)
    for uri in (one.uri(), "untitled:Untitled-1"):
        one.session.documents.open(uri, "python", 1, "x = ")
        assert not await shown(one, uri)
        error = one.memory.statuses[-1]["error"]
        assert (error["code"], error["file"]) == ("config.unreadable", str(one.home / "variants"))
        assert "Permission denied" in error["message"]


async def test_what_only_a_person_can_mend_is_said_once_and_not_for_each_key(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    approve = "In this workspace: warmline trust add --workspace"
    error = TrustError(f"`style` is not approved: {one.root}/a.gguf", code="trust.unapproved", remedy=approve)
    one.engine.error = error
    for _ in range(3):
        assert not await shown(one, uri)
    [message] = one.memory.messages
    assert message == f"Warmline: no suggestions from acme: `style` is not approved: a.gguf. {approve}"
    one.engine.error = ArtifactError("gone", code="artifact.missing")
    assert not await shown(one, uri)
    one.select("plain")
    assert not await shown(one, uri)
    assert not await shown(one, uri)
    assert len(one.memory.messages) == 3  # another code, then another variant
    one.engine.error = None
    assert await shown(one, uri)
    one.engine.error = ArtifactError("gone again", code="artifact.missing")
    assert not await shown(one, uri)
    assert len(one.memory.messages) == 4


@pytest.mark.parametrize("error", [BackendError("busy", code="backend.crashed"), ValueError("secret")])
async def test_what_may_pass_by_itself_makes_no_message(room: Make, error: Exception) -> None:
    one = room("1")
    one.engine.error = error
    assert not await shown(one, one.open("x = "))
    assert one.memory.messages == []


async def test_an_engine_that_cannot_be_imported_is_an_error_the_user_sees(room: Make) -> None:
    one = room("1")

    def broken() -> Any:
        raise ImportError("libllama.so: cannot open shared object file")

    one.session._make_engine = broken
    assert not await shown(one, one.open("x = "))
    assert one.memory.statuses[-1]["error"]["code"] == "backend.import"


async def test_closing_the_session_lets_go_of_the_engine(room: Make) -> None:
    one = room("1")
    assert await shown(one, one.open("x = "))
    await one.session.close()
    assert one.engine.closed


def test_watchers_are_asked_for_only_where_the_client_can(tmp_path: Path) -> None:
    assert registration(Client(), tmp_path) is None
    plain = registration(Client(watches_files=True), tmp_path)
    both = registration(Client(watches_files=True, relative_patterns=True), tmp_path)
    assert plain is not None
    assert both is not None
    for registered, count in ((plain, 1), (both, 2)):
        assert registered.register_options is not None
        assert len(registered.register_options.watchers) == count
