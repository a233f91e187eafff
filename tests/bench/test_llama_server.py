"""The peer is found, started and always ended. A script stands in for llama-server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from llama_server import PeerError, Server, find, main, require, running_server

_HEALTHY = """\
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def stand_in(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "llama-server"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    monkeypatch.setenv("LLAMA_SERVER", str(path))
    return path


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_named_binary_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stand_in(tmp_path, "", monkeypatch)
    assert find() == require() == path


def test_a_name_without_a_program_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_SERVER", str(tmp_path / "nowhere"))
    with pytest.raises(PeerError, match="nowhere"):
        find()


def test_what_is_not_built_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    monkeypatch.setenv("WARMLINE_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["llama_server.py", "path"])
    assert main() == 1
    assert "bench/llama_server.py build" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="CPU time of a process is read from Linux's /proc")
def test_the_server_ends_with_the_block_even_when_the_block_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, _HEALTHY, monkeypatch)
    seen: list[Server] = []

    def fail_beside_it() -> None:
        with running_server(tmp_path / "model.gguf", threads=1, n_ctx=512, slots=2) as server:
            seen.append(server)
            assert server.cpu_seconds() >= 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_beside_it()
    assert gone(seen[0].pid)
    command = " ".join(seen[0].command)
    assert "--threads 1 --threads-batch 1" in command
    assert "--parallel 2 --ctx-size 1024" in command


def test_a_server_that_leaves_is_an_error_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "print('no such model', flush=True)\nraise SystemExit(3)", monkeypatch)
    with (
        pytest.raises(PeerError, match=r"exit code 3(.|\n)*no such model"),
        running_server(tmp_path / "model.gguf", threads=1, n_ctx=512),
    ):
        pass


def test_a_silent_server_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    stand_in(
        tmp_path, f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)", monkeypatch
    )
    with (
        pytest.raises(PeerError, match="does not answer"),
        running_server(tmp_path / "model.gguf", threads=1, n_ctx=512, wait_s=2),
    ):
        pass
    assert gone(int(note.read_text()))
