"""`warmline catalog`: what a curator publishes comes in by digest, whole, and by the catalog's word alone."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from certificate_tools import paper
from fake_backend import write_adapter, write_base
from fake_hub import FakeHub
from warmline.digests import DigestCache, bytes_digest

Run = Callable[..., Any]
NOWHERE = "sha256:" + "0" * 64


@dataclass
class Site:
    """Files over HTTP; `redirects` leads elsewhere, `cut` breaks a file's first answer after so many bytes.

    `pause` is in seconds, after each byte.
    """

    folder: Path
    redirects: dict[str, str] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    pause: float = 0.0
    url: str = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[Site]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                asked = self.headers.get("Range", "")
                site.requests.append((self.path, asked))
                if self.path in site.redirects:
                    self.send_response(302)
                    self.send_header("Location", site.redirects[self.path])
                    self.end_headers()
                    return
                path = site.folder / self.path.lstrip("/")
                if not path.is_file():
                    self.send_error(404)
                    return
                first = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                data = path.read_bytes()[first:]
                if first and not data:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{path.stat().st_size}")
                    self.end_headers()
                    return
                self.send_response(206 if first else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                data = data[: site.cut.pop(self.path, len(data))]
                with contextlib.suppress(ConnectionError):
                    for at in range(0, len(data), 1 if site.pause else len(data)):
                        self.wfile.write(data[at : at + 1] if site.pause else data)
                        time.sleep(site.pause)

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


@dataclass
class Team:
    """A folder with a catalog `team` of a base, an adapter and the variant of both; `write` after each change."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        digests = DigestCache()
        base = {"name": "tiny", "digest": digests.digest(write_base(self.folder / "base.gguf"))}
        adapter = digests.digest(write_adapter(self.folder / "style.gguf"))
        self.base: dict[str, Any] = {"type": "model", **base, "source": "base.gguf", "licence": "MIT"}
        self.adapter: dict[str, Any] = {
            **{"type": "adapter", "name": "style", "digest": adapter, "source": "style.gguf"},
            "base": dict(base),
        }
        self.variant: dict[str, Any] = {
            **{"type": "variant", "name": "acme", "base": "tiny", "description": "How we write"},
            "adapters": [{"name": "style", "scale": 0.5}],
            "certificate": "acme.json",
        }
        certificate = paper(base["digest"], [(adapter, "0.5")])
        (self.folder / "acme.json").write_bytes(certificate.to_json())
        self.write()

    @property
    def file(self) -> Path:
        return self.folder / "catalog.json"

    def write(self) -> None:
        entries = [self.base, self.adapter, self.variant]
        self.file.write_text(json.dumps({"schema": 1, "name": "team", "entries": entries}))


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path / "team")


@pytest.fixture
def site(team: Team) -> Iterator[Site]:
    with Site(team.folder).running() as site:
        yield site


def code(done: Any) -> str:
    assert done.code == 1, done.out
    assert done.json["error"]["remedy"]
    return str(done.json["error"]["code"])


def test_a_variant_brings_its_base_and_adapters_curated(warmline: Run, team: Team) -> None:
    added = warmline("catalog", "add", team.file, "--json").json
    assert (added["name"], added["entries"], added["digest"]) == ("team", 3, bytes_digest(team.file.read_bytes()))
    done = warmline("catalog", "install", "acme", "--json")
    assert done.code == 0, done.out
    assert done.json == {
        **{"catalog": "team", "installed": ["llama/tiny", "llama/style"], "present": []},
        "variant": "llama/acme",
    }
    (row,) = warmline("variant", "list", "--json").json
    assert (row["trust"], row["adapters"][0]["scale"]) == ("curated by team", "0.5")
    (adapter,) = warmline("adapter", "list", "--json").json
    assert (adapter["trust"], adapter["verified"], adapter["catalog"]) == ("curated", True, "team")
    again = warmline("catalog", "install", "acme", "--json").json
    assert (again["installed"], len(again["present"])) == ([], 2)


def test_the_list_says_how_an_installed_variant_stands(warmline: Run, team: Team) -> None:
    def listed() -> str:
        (row,) = warmline("variant", "list", "--json").json
        shown = {
            each["name"]: each["installed_certificate"] for each in warmline("catalog", "list", "--json", "team").json
        }
        assert (shown["tiny"], shown["acme"]) == (None, row["certificate"])
        text = " ".join(warmline("catalog", "list", "team").out.split())
        assert f"given; here {row['certificate'].partition(':')[0]}" in text
        return str(row["certificate"])

    assert warmline("catalog", "add", team.file).code == 0
    assert warmline("catalog", "list", "--json", "team").json[2]["installed_certificate"] is None
    assert warmline("catalog", "install", "acme").code == 0
    assert listed().startswith("void: ")  # it was measured with another backend


def test_list_and_search(warmline: Run, team: Team) -> None:
    assert warmline("catalog", "list", "--json").json == []
    team.base["merged_from"] = "qwen+acme"
    team.write()
    assert warmline("catalog", "add", team.file).code == 0
    assert [row["name"] for row in warmline("catalog", "list", "--json").json] == ["team"]
    assert [row["name"] for row in warmline("catalog", "list", "team", "--json").json] == ["tiny", "style", "acme"]
    assert [row["name"] for row in warmline("catalog", "search", "write HOW", "--json").json] == ["acme"]
    text = warmline("catalog", "list", "team").out
    assert "tiny -> style@0.5" in text
    assert "merged: qwen+acme" in text
    assert code(warmline("catalog", "list", "other", "--json")) == "catalog.unknown"


def test_a_variant_without_a_valid_certificate_is_the_users_own_or_not_installed(warmline: Run, team: Team) -> None:
    assert warmline("catalog", "add", team.file).code == 0
    (team.folder / "acme.json").write_bytes(paper(NOWHERE, [(NOWHERE, "0.5")]).to_json())
    assert code(warmline("catalog", "install", "acme", "--json")) == "catalog.certificate"
    (team.folder / "acme.json").write_text("{}")
    assert code(warmline("catalog", "install", "acme", "--json")) == "config.field"
    team.variant.pop("certificate")
    team.write()
    assert warmline("catalog", "add", team.file, "--replace").code == 0
    assert code(warmline("catalog", "install", "acme", "--json")) == "catalog.certificate"
    assert warmline("model", "list", "--json").json == []
    assert warmline("catalog", "install", "acme", "--own").code == 0
    assert "none" in warmline("catalog", "list", "team").out


def test_a_catalog_over_http_brings_what_lies_beside_it(warmline: Run, site: Site, home: Path) -> None:
    assert warmline("catalog", "add", f"{site.url}/catalog.json").code == 0
    done = warmline("catalog", "install", "acme", "--json")
    assert done.code == 0, done.out
    assert [path for path, _ in site.requests] == ["/catalog.json", "/acme.json", "/base.gguf", "/style.gguf"]
    assert list((home / "downloads").iterdir()) == []


def test_a_broken_download_goes_on(warmline: Run, site: Site) -> None:
    site.cut["/base.gguf"] = 1000
    assert warmline("catalog", "add", f"{site.url}/catalog.json").code == 0
    assert warmline("catalog", "install", "tiny").code == 0
    assert [asked for path, asked in site.requests if path == "/base.gguf"] == ["", "bytes=1000-"]


def test_other_bytes_than_promised_are_refused(warmline: Run, team: Team, site: Site, home: Path) -> None:
    """Row 18: a digest is compared with the bytes, not believed."""
    for location in (team.file, f"{site.url}/catalog.json"):
        assert warmline("catalog", "add", location, "--replace").code == 0
        data = (team.folder / "base.gguf").read_bytes()
        (team.folder / "base.gguf").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert code(warmline("catalog", "install", "acme", "--json")) == "artifact.digest"
        assert list(home.rglob("record.json")) == []
        (team.folder / "base.gguf").write_bytes(data)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.base.pop("digest"), "catalog.digest"),
        (lambda t: t.adapter.pop("digest"), "catalog.digest"),
        (lambda t: t.adapter["base"].pop("digest"), "catalog.digest"),
        (lambda t: t.adapter["base"].update(digest=NOWHERE), "artifact.adapter.base"),
        (lambda t: t.base.update(source=""), "catalog.source"),
    ],
    ids=["base", "adapter", "adapter's base", "another base", "no source"],
)
def test_a_curated_entry_names_everything_by_digest(
    warmline: Run, team: Team, home: Path, change: Callable[[Team], Any], expected: str
) -> None:
    change(team)
    team.write()
    assert warmline("catalog", "add", team.file).code == 0
    assert code(warmline("catalog", "install", "acme", "--json")) == expected
    assert list((home / "adapters").rglob("record.json")) == []


def test_as_ones_own_it_is_not_curated(warmline: Run, team: Team) -> None:
    team.adapter["base"].pop("digest")
    team.write()
    assert warmline("catalog", "add", team.file).code == 0
    assert warmline("catalog", "install", "acme", "--own").code == 0
    (adapter,) = warmline("adapter", "list", "--json").json
    assert (adapter["trust"], adapter["verified"], adapter["catalog"]) == ("user", False, None)


def test_a_file_is_no_larger_than_promised(warmline: Run, team: Team, site: Site, home: Path) -> None:
    team.base["size"] = 100
    team.write()
    assert warmline("catalog", "add", f"{site.url}/catalog.json").code == 0
    assert code(warmline("catalog", "install", "tiny", "--json")) == "catalog.too_large"
    assert list(home.rglob("file.gguf")) == []


@pytest.mark.parametrize("source", ["/etc/passwd", "../x.gguf", "file:///etc/passwd", "ftp://x/y", "~/x", "a\\b"])
def test_a_source_that_leads_elsewhere_is_no_source(warmline: Run, team: Team, source: str) -> None:
    team.base["source"] = source
    team.write()
    assert code(warmline("catalog", "add", team.file, "--json")) == "config.field"


def test_a_link_out_of_the_catalogs_folder_is_not_followed(warmline: Run, team: Team, tmp_path: Path) -> None:
    (team.folder / "base.gguf").replace(tmp_path / "outside.gguf")
    (team.folder / "base.gguf").symlink_to(tmp_path / "outside.gguf")
    assert warmline("catalog", "add", team.file).code == 0
    assert code(warmline("catalog", "install", "tiny", "--json")) == "catalog.source"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirect_leads_to_no_other_scheme(warmline: Run, site: Site, target: str) -> None:
    site.redirects["/moved.json"] = target
    assert code(warmline("catalog", "add", f"{site.url}/moved.json", "--json")) == "catalog.fetch"
    site.redirects["/here.json"] = "/catalog.json"
    assert warmline("catalog", "add", f"{site.url}/here.json").code == 0


def test_what_is_no_catalog(warmline: Run, team: Team, site: Site, home: Path) -> None:
    (team.folder / "bad.json").write_text("{")
    (team.folder / "large.json").write_bytes(b" " * ((8 << 20) + 1))
    cases = {
        str(team.folder / "bad.json"): "config.json",
        str(team.folder / "none.json"): "artifact.missing",
        str(team.folder): "artifact.not_a_file",
        str(team.folder / "large.json"): "catalog.too_large",
        f"{site.url}/large.json": "catalog.too_large",
        f"{site.url}/none.json": "catalog.fetch",
        "http://127.0.0.1:9/x.json": "catalog.fetch",
        "ftp://x/y.json": "catalog.source",
        "file:///etc/passwd": "catalog.source",
    }
    for location, expected in cases.items():
        assert code(warmline("catalog", "add", location, "--json")) == expected, location
    assert code(warmline("catalog", "add", team.file, "--digest", NOWHERE, "--json")) == "artifact.digest"
    assert not (home / "catalogs").exists()


def test_a_changed_catalog_is_another_one(warmline: Run, team: Team) -> None:
    """What was added is what counts: the file may change afterwards."""
    assert warmline("catalog", "add", team.file).code == 0
    assert warmline("catalog", "add", team.file).code == 0
    team.variant["description"] = "other"
    team.write()
    assert code(warmline("catalog", "add", team.file, "--json")) == "catalog.exists"
    assert warmline("catalog", "search", "other", "--json").json == []
    assert warmline("catalog", "add", team.file, "--replace").code == 0
    assert [row["name"] for row in warmline("catalog", "search", "other", "--json").json] == ["acme"]


def test_removing_a_catalog_leaves_what_came_from_it(warmline: Run, team: Team) -> None:
    assert warmline("catalog", "add", team.file).code == 0
    assert warmline("catalog", "install", "acme").code == 0
    assert warmline("catalog", "remove", "team", "--json").json == {"removed": "team"}
    assert code(warmline("catalog", "remove", "team", "--json")) == "catalog.unknown"
    assert code(warmline("catalog", "install", "acme", "--json")) == "catalog.unknown"
    assert warmline("variant", "list", "--json").json[0]["trust"] == "curated by team"


def test_another_artifact_of_the_name_is_a_conflict(warmline: Run, team: Team, tmp_path: Path) -> None:
    other = write_base(tmp_path / "other.gguf", weights=b"\x02")
    assert warmline("model", "add", other, "--name", "tiny").code == 0
    assert warmline("catalog", "add", team.file).code == 0
    assert code(warmline("catalog", "install", "acme", "--json")) == "catalog.conflict"


def test_a_source_on_a_hub(warmline: Run, team: Team, tmp_path: Path) -> None:
    with FakeHub(repos={"acme/tiny": {"q/base.gguf": (team.folder / "base.gguf").read_bytes()}}).running() as hub:
        team.base["source"] = "hf://acme/tiny/q/base.gguf"
        team.write()
        assert warmline("catalog", "add", team.file).code == 0
        own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": ""}
        done = warmline("catalog", "install", "acme", "--json", environment=own)
    assert done.code == 0, done.out
    assert done.json["installed"] == ["llama/tiny", "llama/style"]
