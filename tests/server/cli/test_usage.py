"""Wrong usage, help, schemas, and what every command promises about its output."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from warmline_server.cli.app import run

Run = Callable[..., Any]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["complete"],
        ["complete", "file.py"],
        ["complete", "file.py:1"],
        ["complete", "file.py:0:1"],
        ["complete", "file.py:1:-1"],
        ["complete", ":1:1"],
        ["complete", "file.py:1:1", "--nonsense"],
        ["complete", "file.py:1:99999999999999999999"],
        ["complete", "f:" + "1" * 5000 + ":1"],
        ["complete", "f:" + "0" * 11 + "1" * 5000 + ":1"],
        ["schema", "nonsense"],
        ["trust", "add"],
        ["trust"],
        ["demo", "now"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_wrong_usage_is_exit_2_with_a_way_on(warmline: Run, arguments: list[str]) -> None:
    done = warmline(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "--help" in done.err
    assert "Traceback" not in done.err


def test_wrong_usage_is_json_for_programs(warmline: Run) -> None:
    done = warmline("complete", "file.py", "--json")
    assert done.code == 2
    assert done.json["error"]["code"] == "usage"
    assert set(done.json["error"]) == {"code", "message", "file", "field", "remedy"}


def test_a_choice_that_is_none_is_told_in_our_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "add", "x.gguf", "--name", "x", "--precision", "nope", "--json"]) == 2
    message = json.loads(capfd.readouterr().out)["error"]["message"]
    assert "nope" in message
    assert "exact" in message
    assert "Value error" not in message


def test_no_command_shows_the_commands(warmline: Run) -> None:
    done = warmline()
    assert done.code == 2
    assert "complete" in done.err


@pytest.mark.parametrize("command", [[], ["complete"], ["demo"], ["status"]], ids=" ".join)
def test_help_documents_the_exit_codes(warmline: Run, command: list[str]) -> None:
    done = warmline(*command, "--help")
    assert done.code == 0
    text = " ".join(done.out.split())
    for promise in ("0 done", "1 an error", "2 wrong usage", "3 nothing to suggest", "130 interrupted"):
        assert promise in text


def test_version(warmline: Run) -> None:
    done = warmline("--version")
    assert done.code == 0
    assert done.out.startswith("warmline ")


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("variant", ".warmline/variants/*.json"),
        ("workspace", ".warmline/config.json"),
        ("adapter", "adapters/*/adapter.json"),
    ],
)
def test_a_schema_accepts_the_examples_and_refuses_an_unknown_field(
    warmline: Run, examples: Path, kind: str, files: str
) -> None:
    schema = warmline("schema", kind).json
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    paths = sorted(examples.glob(files))
    assert paths
    for path in paths:
        content = json.loads(path.read_text())
        validator.validate(content)
        assert not validator.is_valid(content | {"nonsense": 1})


def test_lsp_on_a_terminal_explains_itself(entry: list[str], home: Path) -> None:
    """A person who types `warmline lsp` gets an answer instead of a process that waits for ever."""
    person, terminal = pty.openpty()
    try:
        done = subprocess.run([*entry, "lsp"], stdin=terminal, capture_output=True, text=True, timeout=60)
    finally:
        os.close(person)
        os.close(terminal)
    assert (done.returncode, done.stdout) == (2, "")
    for word in ("Language Server Protocol", "VS Code", "vim.lsp.config", "warmline demo"):
        assert word in done.stderr


def test_a_schema_may_be_asked_for_as_json(warmline: Run) -> None:
    assert warmline("schema", "variant", "--json").json == warmline("schema", "variant").json


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_process_without_some_streams_works(entry: list[str], home: Path, tmp_path: Path, closed: str) -> None:
    """What is opened first must not get the number of a stream that is missing."""
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *entry]
    # `engine status` opens sockets, if any command does.
    for arguments in (["complete", "--json", "missing.py:1:1"], ["status", "--json"], ["engine", "status", "--json"]):
        done = subprocess.run([*shell, *arguments], input=b"", capture_output=True, timeout=60)
        assert done.returncode == (0 if arguments[0] == "engine" else 1)
        assert b"Traceback" not in done.stderr
        assert (done.stdout == b"") == (" >&-" in f" {closed}")


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_the_language_server_without_a_stream_ends_and_says_nothing_odd(
    entry: list[str], home: Path, closed: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *entry, "lsp"], input=b"", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    "arguments",
    [
        ["schema", "variant"],
        ["--help"],
        ["--version"],
        ["complete", "missing.py:1:1", "--json"],
        ["nonsense", "--json"],
    ],
    ids=" ".join,
)
def test_a_full_stdout_is_one_line_on_stderr(entry: list[str], home: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*entry, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert done.stderr.decode() == "warmline: the output cannot be written: No space left on device\n"


def test_an_interrupt_leaves_stdout_empty_and_help_says_so(warmline: Run) -> None:
    assert "after an interrupt it holds none" in " ".join(warmline("status", "--help").out.split())


def test_a_store_that_may_not_be_read_is_a_typed_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def closed(*_: object) -> Any:
        raise PermissionError(13, "Permission denied", str(home / "variants"))

    monkeypatch.setattr("warmline.registry.Store.resolve", closed)
    monkeypatch.setattr("warmline.registry.Store.find", closed)
    assert run(["complete", f"{__file__}:1:1", "--variant", "v", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["file"]) == ("config.unreadable", str(home / "variants"))


def test_an_interrupt_is_exit_130_without_a_traceback(entry: list[str], home: Path) -> None:
    running = subprocess.Popen(
        [*entry, "complete", "-:1:1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdin is not None
    # More than a pipe holds: when the write returns, the command is reading, past its imports.
    running.stdin.write(b"x" * (1 << 20))
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, b""), err.decode(errors="replace")
    assert b"Traceback" not in err


def test_a_traceback_is_shown_only_on_demand(warmline: Run) -> None:
    assert "Traceback" not in warmline("complete", "missing.py:1:1").err
    asked = warmline("complete", "missing.py:1:1", environment={"WARMLINE_DEBUG": "1"})
    assert "Traceback" in asked.err
    assert asked.code == 1


def test_a_reader_that_leaves_is_no_fault(entry: list[str], home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*entry, "schema", "variant"], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert done.stderr == b""
