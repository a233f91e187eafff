"""A hub on this machine: what huggingface_hub asks for, and the faults that networks and hubs have."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_LARGE = 1000  # bytes from which a file is kept as a large one, with its SHA-256


@dataclass
class FakeHub:
    """Repositories by name, each a mapping of file names to bytes; the rest is how it misbehaves.

    Parameters
    ----------
    cut_after
        Bytes of a file after which the connection breaks, as often as `cuts` says.
    down
        After a connection broke, files are answered with an error until this is taken back.
    served
        By file: other bytes than those whose digests are stated.
    stated
        Whether it states digests.
    description
        What it answers in place of a repository's description.
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    served: dict[str, bytes] = field(default_factory=dict)
    stated: bool = True
    description: bytes | None = None
    licence: str = "apache-2.0"
    cut_after: int = 0
    cuts: int = 0
    goes_down: bool = False
    down: bool = False
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, Range
    url: str = ""

    @property
    def ranges(self) -> list[str]:
        """The ranges that were asked for, in order; empty for a whole file."""
        return [asked for method, path, asked in self.requests if method == "GET" and "/resolve/" in path]

    @contextlib.contextmanager
    def running(self) -> Iterator[FakeHub]:
        """Serve on a free port of 127.0.0.1."""
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _git(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if len(data) >= _LARGE else _git(data)


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range", "")))
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/([^/]+))?", path):
            self._describe(found[1], found[3])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[3])
        else:
            self._error(404, "EntryNotFound")

    def _describe(self, repo: str, revision: str | None) -> None:
        if repo in self.hub.gated:
            return self._error(403, "GatedRepo")
        files = self.hub.repos.get(repo)
        if files is None:
            return self._error(404, "RepoNotFound")
        if revision not in (None, "main", COMMIT):
            return self._error(404, "RevisionNotFound")
        if self.hub.description is not None:
            return self._send(200, self.hub.description, {"Content-Type": "application/json"})
        siblings = []
        for name, data in files.items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": _git(data)}
            if len(data) >= _LARGE:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(entry if self.hub.stated else {"rfilename": name, "size": len(data)})
        body = {"id": repo, "sha": COMMIT, "siblings": siblings, "cardData": {"license": self.hub.licence}}
        self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, name: str) -> None:
        data = self.hub.repos.get(repo, {}).get(name)
        if self.hub.down:
            return self._error(500, "")
        if data is None:
            return self._error(404, "EntryNotFound")
        headers = {"ETag": f'"{_etag(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        data = self.hub.served.get(name, data)
        first = 0
        if found := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            first = int(found[1])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        self._send(206 if first else 200, data[first:], headers)

    def _error(self, code: int, why: str) -> None:
        self._send(code, b"{}", {"X-Error-Code": why, "Content-Type": "application/json"})

    def _send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.hub.cuts and 0 < self.hub.cut_after < len(body):
            self.hub.cuts -= 1
            self.hub.down = self.hub.goes_down
            body = body[: self.hub.cut_after]
            self.close_connection = True
            self.wfile.write(body)
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(body)
