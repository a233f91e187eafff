"""Errors land on the file and the field that a person has to mend."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room
from warmline.errors import ArtifactError, BackendError, VariantError, WarmlineError
from warmline_server.lsp.diagnostics import DiagnosticsBoard, blame, diagnose, diagnostic
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.variants import Place

Make = Callable[..., Room]


def marked(path: Path, item: types.Diagnostic, encoding: str = "utf-16") -> str:
    line = path.read_text().split("\n")[item.range.start.line].encode("utf-16-le")
    assert item.range.end.line == item.range.start.line
    return line[2 * item.range.start.character : 2 * item.range.end.character].decode("utf-16-le")


def shown(room: Room, error: WarmlineError | None = None) -> tuple[Path, types.Diagnostic, str]:
    place = room.session.variants.place(room.uri())
    assert isinstance(place, Place)
    variant = None
    try:
        variant = room.session.variants.resolve(place)
    except WarmlineError as found:
        error = error or found
    assert error is not None
    fault = blame(error, place, variant)
    assert fault is not None
    item = diagnostic(error, fault, "utf-16")
    assert item.code == error.code
    assert item.severity == types.DiagnosticSeverity.Error
    return fault.path, item, marked(fault.path, item)


def adapters(room: Room, **changes: Any) -> None:
    spec = {"name": "stÿle-\U0001f600" if changes.pop("odd", None) else "style", "path": str(room.adapter), **changes}
    room.variant("acme", {"base": {"path": str(room.base)}, "adapters": [spec]})


@pytest.mark.parametrize(
    ("change", "mark", "code"),
    [
        ({"scale": 0}, "0", "config.field"),
        ({"scale": 5}, "5", "config.field"),
        ({"scale": float("nan")}, "NaN", "config.field"),
        ({"scale": "loud"}, '"loud"', "config.field"),
        ({"sclae": 1}, '"sclae"', "config.unknown_field"),
        ({"digest": "sha256:abc"}, '"sha256:abc"', "config.field"),
    ],
)
async def test_a_bad_field_of_a_variant_file(room: Make, change: Any, mark: str, code: str) -> None:
    one = room()
    adapters(one, **change)
    path, item, text = shown(one)
    assert (path, item.code, text) == (one.variant_path("acme"), code, mark)


async def test_an_unknown_field_of_the_workspace_file(room: Make) -> None:
    one = room()
    one.write(one.config, {"variant": "acme", "overides": {}})
    path, item, text = shown(one)
    assert (path, text) == (one.config, '"overides"')
    assert "Did you mean `overrides`?" in item.message


async def test_a_file_that_is_no_json_is_marked_where_it_breaks(room: Make) -> None:
    one = room()
    one.write(one.config, '{\n  "variant": acme\n}')
    path, item, text = shown(one)
    assert (path, item.code, text) == (one.config, "config.json", "a")


async def test_a_key_given_twice_is_marked_the_second_time(room: Make) -> None:
    one = room()
    one.write(one.config, '{"variant": "acme",\n "variant": "plain"}')
    path, item, text = shown(one)
    assert (path, item.range.start.line, text) == (one.config, 1, '"variant"')


async def test_an_unknown_adapter_in_the_overrides(room: Make) -> None:
    one = room()
    one.write(one.config, {"variant": "acme", "overrides": {"scales": {"other": 2}}})
    path, _, text = shown(one)
    assert (path, text) == (one.config, "2")


async def test_an_error_about_an_adapter_lands_on_the_field_that_names_it(room: Make) -> None:
    one = room()
    adapters(one, digest="sha256:" + "0" * 64)
    error = ArtifactError("it is broken", code="artifact.truncated", file=str(one.adapter), field="tensors[3]")
    path, item, text = shown(one, error)
    assert (path, text) == (one.variant_path("acme"), json.dumps(str(one.adapter)))
    assert str(one.adapter) in item.message
    error = ArtifactError("other bytes", code="artifact.digest", file=str(one.adapter))
    assert shown(one, error)[2] == '"sha256:' + "0" * 64 + '"'


async def test_an_error_about_the_base_lands_on_the_base(room: Make) -> None:
    one = room()
    path, _, text = shown(one, ArtifactError("gone", code="artifact.missing", file=str(one.base), remedy="Fetch it"))
    assert (path, text) == (one.variant_path("acme"), json.dumps(str(one.base)))


async def test_an_error_without_a_file_lands_where_the_variant_is_selected(room: Make) -> None:
    one = room()
    path, item, text = shown(one, BackendError("out of memory", code="backend.context", remedy="Use a smaller base"))
    assert (path, text) == (one.config, '"acme"')
    assert item.message == "out of memory. Use a smaller base"


@pytest.mark.parametrize("code", ["backend.message", "backend.crashed", "backend.host_start", "internal"])
async def test_a_failure_of_the_engines_own_is_no_files_fault(room: Make, code: str) -> None:
    one = room()
    uri = one.open("x = ")
    one.engine.error = WarmlineError("it failed", code=code, field="complete.surprise")
    one.session.prepare(uri)
    await one.session.settled()
    assert not any(one.memory.diagnostics.values())
    assert one.memory.statuses[-1]["error"]["code"] == code
    assert code in one.memory.logs[-1]


async def test_an_error_with_a_field_only_is_about_the_variant_file(room: Make) -> None:
    one = room()
    adapters(one, scale=2)
    path, _, text = shown(one, VariantError("no effect", field="adapters[0].scale"))
    assert (path, text) == (one.variant_path("acme"), "2")


async def test_a_folder_in_place_of_the_file_is_marked_at_its_start(room: Make) -> None:
    one = room()
    one.config.unlink()
    one.config.mkdir()
    place = one.session.variants.place(one.uri())
    assert isinstance(place, Place)
    with pytest.raises(WarmlineError) as caught:
        one.session.variants.resolve(place)
    fault = blame(caught.value, place, None)
    assert fault is not None
    item = diagnostic(caught.value, fault, "utf-16")
    assert item.range == types.Range(types.Position(0, 0), types.Position(0, 0))


async def test_ranges_are_in_the_sessions_encoding(room: Make) -> None:
    one = room()
    one.write(one.config, '{"\U0001f600": 1, "variant": "acme"}')
    place = one.session.variants.place(one.uri())
    assert isinstance(place, Place)
    with pytest.raises(WarmlineError) as caught:
        one.session.variants.resolve(place)
    fault = blame(caught.value, place, None)
    assert fault is not None
    ends = [diagnostic(caught.value, fault, e).range.end.character for e in ("utf-8", "utf-16", "utf-32")]
    assert ends == [1 + 6, 1 + 4, 1 + 3]


@pytest.mark.parametrize("related", [True, False])
async def test_the_workspace_file_points_at_the_variant_files_problem(room: Make, related: bool) -> None:
    one = room()
    adapters(one, scale=5)
    place = one.session.variants.place(one.uri())
    assert isinstance(place, Place)
    with pytest.raises(WarmlineError) as caught:
        one.session.variants.resolve(place)
    (file, there), (config, here) = diagnose(caught.value, place, None, Client(related_information=related))
    assert (file, config) == (one.variant_path("acme"), one.config)
    assert (marked(file, there), marked(config, here)) == ("5", '"acme"')
    assert there.message in here.message
    if related:
        [information] = here.related_information or []
        assert information.location == types.Location(file.as_uri(), there.range)
    else:
        assert here.related_information is None


async def test_what_is_wrong_with_the_workspace_file_is_said_once(room: Make) -> None:
    one = room()
    one.select("acne")
    place = one.session.variants.place(one.uri())
    assert isinstance(place, Place)
    with pytest.raises(WarmlineError) as caught:
        one.session.variants.resolve(place)
    [(path, _)] = diagnose(caught.value, place, None, Client())
    assert path == one.config


@pytest.mark.timeout(20)
async def test_a_fifo_in_place_of_a_file_holds_nobody_up(room: Make) -> None:
    one = room()
    for file in (one.variant_path("acme"), one.config):
        file.unlink()
        os.mkfifo(file)
        place = one.session.variants.place(one.uri())
        assert isinstance(place, Place)
        with pytest.raises(WarmlineError) as caught:
            one.session.variants.resolve(place)
        [(path, item), *_] = diagnose(caught.value, place, None, Client())
        assert (path, item.code, item.range.end.character) == (file, "config.unreadable", 0)


def test_a_file_that_two_places_blame_keeps_the_others_error() -> None:
    sent: list[tuple[str, int]] = []
    board = DiagnosticsBoard(lambda path, items: sent.append((path.name, len(items))))

    def item(message: str) -> types.Diagnostic:
        return types.Diagnostic(types.Range(types.Position(0, 0), types.Position(0, 1)), message)

    board.show("one", [(Path("v.json"), item("a"))])
    board.show("two", [(Path("v.json"), item("b"))])
    board.show("two", [(Path("v.json"), item("b"))])
    board.show("one", [(Path("w.json"), item("c"))])
    board.clear("two")
    board.clear("two")
    assert sent == [("v.json", 1), ("v.json", 2), ("v.json", 1), ("w.json", 1), ("v.json", 0)]
