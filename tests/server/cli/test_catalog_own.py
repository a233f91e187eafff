"""`catalog install --own`: a catalog that nobody is asked to trust is still held to each digest that it gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import FakeHub
from store_tools import openvino_model, peft
from warmline.digests import DigestCache
from warmline.registry import Store
from warmline.store import resolution
from warmline.store.folders import digest_folder
from warmline_server.cli import app

from .test_catalog import NOWHERE, Site, Team

TEMPLATE = "/{repo_id}/resolve/{revision}/{filename}"
KINDS = ("local", "http", "hub", "package")


@pytest.fixture
def team(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setenv("WARMLINE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return Team(tmp_path / "team")


@pytest.fixture
def hub(team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with the team's files in the repository `acme/t`."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    repos = {"acme/t": {path.name: path.read_bytes() for path in team.folder.iterdir()}}
    with FakeHub(repos=repos).running() as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + TEMPLATE)
        yield hub


@pytest.fixture
def from_each(
    team: Team, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Give what has a catalog's files come from another kind of place."""
    with Site(team.folder).running() as site:
        package = tmp_path / "site/warmline_own_files"
        shutil.copytree(team.folder, package)
        (package / "__init__.py").touch()
        monkeypatch.syspath_prepend(str(package.parent))
        monkeypatch.setattr(resolution, "_installation_folders", lambda: (str(package.parent),))
        prefix = {"local": "", "http": f"{site.url}/", "hub": "hf://acme/t/", "package": f"package:{package.name}:"}

        def move(kind: str) -> None:
            for entry in (team.base, team.adapter):
                entry["source"] = prefix[kind] + entry["source"]

        yield move


def install(team: Team, name: str, capfd: pytest.CaptureFixture[str], *options: str) -> Any:
    """Add the catalog as it is now, and install an entry; give what `--json` printed."""
    team.write()
    assert app.run(["catalog", "add", str(team.file), "--replace", "--json"]) == 0
    capfd.readouterr()
    app.run(["catalog", "install", name, "--json", *options])
    return json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_digest_that_is_given_is_compared_wherever_the_bytes_come_from(
    team: Team, from_each: Callable[[str], None], home: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    from_each(kind)
    right = team.base["digest"], team.adapter["digest"]
    team.base["digest"] = NOWHERE
    assert install(team, "tiny", capfd, "--own")["error"]["code"] == "artifact.digest"
    assert list(home.rglob("record.json")) == []
    team.base["digest"] = team.adapter["base"]["digest"] = right[0]
    team.adapter["digest"] = NOWHERE
    assert install(team, "style", capfd, "--own")["error"]["code"] == "artifact.digest"
    team.adapter |= {"digest": right[1], "base": {"name": "tiny", "digest": NOWHERE}}
    assert install(team, "style", capfd, "--own")["error"]["code"] == "artifact.adapter.base"
    assert list((home / "adapters").rglob("record.json")) == []
    team.adapter["base"]["digest"] = right[0]
    assert install(team, "acme", capfd, "--own")["installed"] == ["llama/style"]
    assert install(team, "acme", capfd, "--own")["installed"] == []  # nothing of it is in its own way
    assert {each.record.trust for each in Store(home).list_adapters() if each.record} == {"user"}


@pytest.mark.parametrize("which", ["adapter_config.json", "adapter_model.safetensors"])
def test_the_files_of_a_peft_folder_are_compared(
    team: Team, home: Path, capfd: pytest.CaptureFixture[str], which: str
) -> None:
    folder = peft(team.folder / "peft")
    files = [{"name": path.name, "digest": DigestCache().digest(path), "size": 1} for path in sorted(folder.iterdir())]
    next(file for file in files if file["name"] == which)["digest"] = NOWHERE
    team.adapter |= {"source": "peft", "files": files}
    team.adapter.pop("digest")
    assert install(team, "style", capfd, "--own")["error"]["code"] == "artifact.digest"
    assert list((home / "adapters").rglob("record.json")) == []


def test_the_files_of_a_model_folder_are_compared(team: Team, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = openvino_model(team.folder / "ov")
    _, found = digest_folder(folder, DigestCache().digest_descriptor)
    files = [file.model_dump() for file in found]
    team.base |= {"backend": "openvino", "source": "ov", "files": files}
    team.adapter["backend"] = team.variant["backend"] = "openvino"
    team.base.pop("digest")
    for change, code in (({"digest": NOWHERE}, "artifact.digest"), ({"name": "other.bin"}, "artifact.folder")):
        kept = dict(files[0])
        files[0] |= change
        assert install(team, "tiny", capfd, "--own")["error"]["code"] == code
        files[0] |= kept
    assert list((home / "models").rglob("record.json")) == []
    assert install(team, "tiny", capfd, "--own")["installed"] == ["openvino/tiny"]


def test_a_hub_that_states_no_digest_needs_the_catalogs(
    team: Team, hub: FakeHub, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.stated = False
    team.base["source"] = "hf://acme/t/base.gguf"
    right = team.base.pop("digest")
    assert install(team, "tiny", capfd, "--own")["error"]["code"] == "hub.no_digest"
    team.base["digest"] = NOWHERE
    assert install(team, "tiny", capfd, "--own")["error"]["code"] == "artifact.digest"
    team.base["digest"] = right
    assert install(team, "tiny", capfd, "--own")["installed"] == ["llama/tiny"]


def test_what_the_remedies_name_is_an_option(team: Team, capfd: pytest.CaptureFixture[str]) -> None:
    team.adapter.pop("digest")
    error = install(team, "style", capfd)["error"]
    assert (error["code"], "--own" in error["remedy"]) == ("catalog.digest", True)
