"""The page: whole without a network, every name is text, and the figures are those of the report."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_reports import label, report, runs
from warmline.benchmark.page import page
from warmline.benchmark.plots import svg
from warmline.benchmark.report import measured
from warmline.benchmark.words import number
from warmline.errors import WarmlineError
from warmline.host.wire import ErrorInfo

EVIL = "<script>alert(1)</script>&\"' $x$ \x1b[31m\u202e"


class Tags(HTMLParser):
    """Collects elements, their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_is_fetched_and_nothing_runs() -> None:
    found = Tags(page(report()))
    assert not {"script", "link", "img", "iframe", "object", "foreignobject"} & set(found.tags)
    references = [
        (name, value)
        for name, value in found.attributes
        if ":" in value and name not in ("style", "content") and not name.startswith("xmlns")
    ]
    assert not references
    assert not [value for name, value in found.attributes if name.endswith("href") and not value.startswith("#")]
    assert not re.findall(r"url\((?!#)", page(report()))


def test_every_name_is_text() -> None:
    found = Tags(page(report(base=EVIL, variant=EVIL + "2", warnings=(EVIL,))))
    assert "script" not in found.tags
    assert "<script>alert(1)</script>&\"' $x$ \\u001b[31m\\u202e (base)" in found.text
    assert "\x1b" not in found.text
    assert "\u202e" not in found.text


def test_the_drawing_is_one_valid_svg_without_metadata() -> None:
    drawn = svg(report(base="<b> $x$ \u202e"))
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "metadata" not in drawn
    # On dark ground the drawing's own black would not be seen.
    assert "currentColor" in drawn
    assert "#010203" not in drawn
    texts = ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "acme (dynamic)" in texts
    assert "<b> $x$ \\u202e (base)" in texts


@pytest.mark.filterwarnings("error")
def test_a_long_name_leaves_room_for_the_drawing() -> None:
    root = ElementTree.fromstring(svg(report(base="b" * 250, variant="v" * 64)))
    texts = ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "b" * 15 + "…" + "b" * 9 + " (base)" in texts
    assert "v" * 9 + "…" + "v" * 10 + ", decode" in texts


def test_the_drawing_says_the_medians() -> None:
    drawn = svg(report(seconds=(2, 2, 3)))
    root = ElementTree.fromstring(drawn)
    texts = ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "2.00x" in texts  # 2/1, 2/2, 3/1
    assert "250" in texts  # 500 tokens a second, at half the speed


def test_one_report_is_drawn_alike_each_time() -> None:
    assert svg(report()) == svg(report())


def test_the_tables_hold_every_figure() -> None:
    given = report()
    text = Tags(page(given)).text
    for each in given.variants:
        assert each.label.identity in text
        assert each.label.base_digest in text
        assert each.summary is not None
        for value in (each.summary.load_ms.median, each.summary.decode_tokens_per_s.upper):
            assert number(value) in text
    assert "style sha256:" + "5" * 64 + ", scale 0.5, in force 1" in text
    assert "merged from tiny+style" in text


def test_what_is_partial_says_so() -> None:
    assert "Partial" not in Tags(page(report())).text
    stopped = ErrorInfo(code="bench.interrupted", message="interrupted")
    half = measured(label("slow", "dynamic"), [], (label("tiny"), runs(1)), ())
    given = report()
    text = Tags(page(given.model_copy(update={"partial": stopped, "variants": (*given.variants, half)}))).text
    assert "Partial: interrupted" in text
    assert "slow (dynamic)" in text


def test_without_matplotlib_it_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else real(name))
    with pytest.raises(WarmlineError) as raised:
        page(report())
    assert raised.value.code == "bench.plots"
    assert "pip install 'warmline[report]'" in raised.value.remedy
