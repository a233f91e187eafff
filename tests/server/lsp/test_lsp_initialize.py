"""`initialize`: negotiation without the protocol library."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import converters, types
from warmline_server.lsp.framing import Frames, frame
from warmline_server.lsp.initialize import Client, answer, read_client
from warmline_server.lsp.server import handshake

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "utf-16"),
        ([], "utf-16"),
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-32", "utf-8", "utf-16"], "utf-32"),
        (["utf-16", "utf-8"], "utf-16"),
        (["utf-7", "utf-8"], "utf-8"),
        (["latin-1", 8, None], "utf-16"),
        ("utf-8", "utf-16"),
    ],
)
def test_the_clients_first_encoding_that_we_know_is_taken(offered: Any, chosen: str) -> None:
    client = read_client({"capabilities": {"general": {"positionEncodings": offered}}})
    assert client.encoding == chosen
    assert answer(client)["capabilities"]["positionEncoding"] == chosen


def test_the_answer_is_what_the_protocol_library_understands() -> None:
    result = converters.get_converter().structure(answer(Client()), types.InitializeResult)
    capabilities = result.capabilities
    assert capabilities.inline_completion_provider is True
    assert capabilities.hover_provider is True
    assert capabilities.completion_provider is not None
    sync = capabilities.text_document_sync
    assert isinstance(sync, types.TextDocumentSyncOptions)
    assert sync.change == types.TextDocumentSyncKind.Incremental
    assert result.server_info is not None
    assert result.server_info.name == "warmline"
    assert result.server_info.version


def test_roots_are_the_folders_else_the_old_root() -> None:
    folders = [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b", "name": "b"}]
    assert read_client({"workspaceFolders": folders, "rootUri": "file:///c"}).roots == ("file:///a", "file:///b")
    assert read_client({"workspaceFolders": None, "rootUri": "file:///c"}).roots == ("file:///c",)
    assert read_client({}).roots == ()


def test_neovim_inserts_lines_without_their_carriage_returns() -> None:
    assert read_client({"clientInfo": {"name": "Neovim"}}).line_end_for("\r\n") == "\n"
    assert read_client({"clientInfo": {"name": "Visual Studio Code"}}).line_end_for("\r\n") == "\r\n"


@pytest.mark.parametrize(
    ("name", "formats", "markdown"),
    [
        ("Visual Studio Code", ["markdown", "plaintext"], True),
        ("Visual Studio Code", ["plaintext", "markdown"], False),
        ("Visual Studio Code", ["html", "markdown"], True),
        ("Visual Studio Code", None, False),
        ("Neovim", ["markdown", "plaintext"], False),
        ("Neovim", ["markdown"], True),
        ("", [["markdown"]], False),
    ],
)
def test_markdown_goes_where_it_is_liked_best_and_shown_as_such(name: str, formats: Any, markdown: bool) -> None:
    document = {"hover": {"contentFormat": formats}, "completion": {"completionItem": {"documentationFormat": formats}}}
    client = read_client({"clientInfo": {"name": name}, "capabilities": {"textDocument": document}})
    assert (client.markdown, client.markdown_documentation) == (markdown, markdown)


def test_what_completion_items_may_hold() -> None:
    kinds = {"snippetSupport": True, "insertTextModeSupport": {"valueSet": [1, 2]}, "labelDetailsSupport": True}
    document = {"completion": {"completionItem": kinds}, "publishDiagnostics": {"relatedInformation": True}}
    client = read_client({"capabilities": {"textDocument": document}})
    assert (client.snippets, client.as_is, client.label_details, client.related_information) == (True,) * 4
    assert not (Client().snippets or Client().as_is or Client().related_information)


@given(st.dictionaries(st.sampled_from(["capabilities", "workspaceFolders", "clientInfo", "processId"]), JSON))
def test_whatever_the_client_sends_it_is_answered(params: dict[str, Any]) -> None:
    json.dumps(answer(read_client(params)))


def test_before_initialize_requests_are_refused_and_notifications_dropped() -> None:
    messages = [
        b"no json",
        json.dumps({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {}}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": {}}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"capabilities": {}}}).encode(),
    ]
    stream, out = io.BytesIO(b"".join(map(frame, messages))), io.BytesIO()
    assert handshake(Frames(stream), out) == Client()
    replies = Frames(io.BytesIO(out.getvalue()))
    answers = [json.loads(cast(bytes, replies.next())) for _ in range(3)]
    assert [(a["id"], a.get("error", {}).get("code")) for a in answers] == [(None, -32700), (1, -32002), (2, None)]


def test_exit_before_initialize_ends() -> None:
    stream = io.BytesIO(frame(b'{"jsonrpc": "2.0", "method": "exit"}'))
    assert handshake(Frames(stream), io.BytesIO()) is None


def test_nothing_heavy_is_imported_before_the_answer() -> None:
    heavy = ["pygls", "lsprotocol", "pydantic", "rich", "typer", "jinja2", "llama_cpp", "numpy", "asyncio"]
    program = (
        "import sys, warmline_server.lsp.server as s; s.answer(s.Client());"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
