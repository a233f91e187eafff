"""What a catalog fetches: a download goes on or begins anew, one at a time, and a small file comes whole and soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warmline.catalog import plan
from warmline.errors import CatalogError
from warmline.registry import Store
from warmline_server.cli import catalogs, transfer

from .test_catalog import Site, Team

Bring = Callable[[], bytes]


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path / "team")


@pytest.fixture
def site(team: Team) -> Iterator[Site]:
    with Site(team.folder).running() as site:
        yield site


def bringer(site: Site, home: Path) -> tuple[catalogs.Bringer, Any]:
    """Return what brings the base of the team's catalog, and what it is to bring."""
    added = catalogs.read(f"{site.url}/catalog.json")
    (need,) = plan(added.catalog, "tiny", Store(home)).needs
    return catalogs.Bringer(home, added, lambda done, total: None), need


@pytest.mark.parametrize(
    ("change", "ranges"),
    [
        (lambda data: data[:100], ["bytes=100-"]),
        (lambda data: data, ["bytes={size}-"]),
        (lambda data: data + b"xyz", ["bytes={more}-", ""]),
    ],
    ids=["a part", "all of it", "more than there is"],
)
def test_what_was_left_behind_is_gone_on_with_or_begun_anew(
    team: Team, site: Site, home: Path, change: Callable[[bytes], bytes], ranges: list[str]
) -> None:
    data = (team.folder / "base.gguf").read_bytes()
    bring, need = bringer(site, home)
    part = bring(need).with_suffix(".gguf.part")
    bring.close()
    part.parent.mkdir()
    part.write_bytes(change(data))
    site.requests.clear()
    bring, need = bringer(site, home)
    assert bring(need).read_bytes() == data
    asked = [asked for path, asked in site.requests if path == "/base.gguf"]
    assert asked == [each.format(size=len(data), more=len(data) + 3) for each in ranges]
    bring.close()
    assert list((home / "downloads").iterdir()) == []


def test_two_do_not_fetch_the_same_at_once(site: Site, home: Path) -> None:
    first, need = bringer(site, home)
    first(need)
    first(need)  # one and the same may
    second, _ = bringer(site, home)
    with pytest.raises(CatalogError) as caught:
        second(need)
    assert (caught.value.code, caught.value.field) == ("catalog.busy", "tiny")
    first.close()
    second(need)
    second.close()


def test_a_small_file_that_breaks_off_is_not_taken_for_the_whole(site: Site) -> None:
    site.cut["/catalog.json"] = 10
    with pytest.raises(CatalogError, match="the connection broke") as caught:
        catalogs.read(f"{site.url}/catalog.json")
    assert caught.value.code == "catalog.fetch"
    assert catalogs.read(f"{site.url}/catalog.json").catalog.name == "team"


def test_a_small_file_that_trickles_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, all of them would not."""
    monkeypatch.setattr(transfer, "_SMALL_SECONDS", 0.2)
    site.pause = 0.02
    with pytest.raises(CatalogError, match="too slowly") as caught:
        catalogs.read(f"{site.url}/catalog.json")
    assert caught.value.code == "catalog.fetch"
