"""The README's pictures: whole, self-contained, free of the machine that made them, and of the examples as they are."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from warmline.digests import short

_SVG = "{http://www.w3.org/2000/svg}"
_NAMES = ("demo", "neovim", "neovim-hover")


@pytest.fixture(scope="module")
def folder(repo: Path) -> Path:
    return repo / "docs" / "pictures"


def _screen(picture: Path) -> str:
    """Read a picture as the screen that it shows: pieces of text at their columns, empty places left out."""
    rows: defaultdict[float, str] = defaultdict(str)
    for element in ElementTree.parse(picture).getroot().iter(f"{_SVG}text"):
        if "textLength" not in element.attrib:
            continue  # the window's title
        text = element.text or ""
        column = round(float(element.attrib["x"]) * len(text) / float(element.attrib["textLength"]))
        row = float(element.attrib["y"])
        rows[row] = rows[row].ljust(column) + text
    return "\n".join(line for _, line in sorted(rows.items())).replace("\xa0", " ")


def _digest(examples: Path, adapter: str) -> str:
    record = json.loads((examples / "adapters" / adapter / "adapter.json").read_text("utf-8"))
    return short(record["digest"])


def test_the_readme_shows_each_picture(repo: Path, folder: Path) -> None:
    shown = re.findall(r"docs/pictures/([\w-]+)\.svg", (repo / "README.md").read_text("utf-8"))

    assert sorted(shown) == sorted(_NAMES)
    assert sorted(path.stem for path in folder.glob("*.svg")) == sorted(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
class TestEachPicture:
    def test_is_an_svg_with_a_size(self, folder: Path, name: str) -> None:
        root = ElementTree.parse(folder / f"{name}.svg").getroot()

        assert root.tag == f"{_SVG}svg"
        left, top, width, height = map(float, root.attrib["viewBox"].split())
        assert (left, top) == (0, 0) and width > 500 and height > 200

    def test_loads_and_runs_nothing(self, folder: Path, name: str) -> None:
        source = (folder / f"{name}.svg").read_text("utf-8")
        tags = {element.tag.removeprefix(_SVG) for element in ElementTree.fromstring(source).iter()}

        assert tags <= {"svg", "style", "defs", "clipPath", "rect", "circle", "g", "text"}
        assert "://" not in source.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"url\((?!#)|@import|@font-face|href|src\s*[:=]", source)

    def test_says_nothing_of_the_machine(self, folder: Path, name: str) -> None:
        screen = _screen(folder / f"{name}.svg")

        assert not re.search(r"""(?:^|[\s"'(=:])(?:/|[A-Za-z]:\\)\w""", screen, re.MULTILINE)
        assert not re.search(r"\w@\w", screen)

    def test_cuts_no_text_off(self, folder: Path, name: str) -> None:
        assert "…" not in _screen(folder / f"{name}.svg")


def test_the_demo_shows_the_variants_side_by_side_cold_and_warm(folder: Path, examples: Path) -> None:
    screen = _screen(folder / "demo.svg")

    assert re.search(r"^ *base +acme *$", screen, re.MULTILINE)
    assert re.search(r"^ *base +fim-python *$", screen, re.MULTILINE)
    assert re.search(r"acme +cold +\d+ ms", screen) and re.search(r"acme +warm +\d+ ms", screen)
    for adapter in ("acme-style", "fim-python"):
        assert re.search(rf"adapter +{adapter} +{_digest(examples, adapter)}", screen)


def test_neovim_shows_a_suggestion_and_who_made_it(folder: Path) -> None:
    screen = _screen(folder / "neovim.svg")

    assert re.search(r"def transfer\(\w.*\bamount_cents: int\)", screen)
    assert re.search(r"ledger\.py .*warmline acme: warm", screen)


def test_the_hover_shows_where_the_variant_came_from(folder: Path, examples: Path) -> None:
    screen = _screen(folder / "neovim-hover.svg")

    assert '"variant": "acme"' in screen
    for label, value in (("Variant", "acme"), ("Adapter 1", "acme-style"), ("Digest", _digest(examples, "acme-style"))):
        assert re.search(rf"{label}\W+{value}", screen)
    assert "\\" not in screen
