"""Golden suggestions: each drawing is the document with what may be inserted, from the raw text beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from drawing import draw, parse
from warmline_server.suggest import Context, suggest

CASES = json.loads((Path(__file__).parents[2] / "cases" / "suggestion_filters.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_users_complained_of_is_not_shown(case: dict[str, Any]) -> None:
    context = Context(case["before"], case["after"], case["language"])
    assert suggest(context, case["raw"]).text == case["show"]


GOLDEN = {
    "a plain end of line": ("python", "x = │⟦compute(1)⟧\n", "compute(1)\n", "shown"),
    "a call that keeps its own closer": ("python", "print(│⟦total(x)⟧)\n", "total(x))\n", "repeats-suffix"),
    "a call whose own closer looks like the rest": ("python", "print(│⟦total(x)⟧)\n", "total(x)", "shown"),
    "a bracket lost far above misleads nobody": (
        "python",
        "broken = (1,\n\nprint(│⟦total⟧)\n",
        "total)\n",
        "repeats-suffix",
    ),
    "one closer of two is there, the model has the other": ("python", "print(f(│⟦a)⟧)\n", "a)\n", "shown"),
    "closers in a comment are there too": ("go", "// see (│⟦below⟧)\n", "below)\n", "repeats-suffix"),
    "one closer of two is there": ("python", "print(f(│⟦a)⟧)\n", "a))\n", "repeats-suffix"),
    "closers go and come back": ("python", "pairs = [(│⟦1, 2), (3, 4⟧)]\n", "1, 2), (3, 4)]\n", "repeats-suffix"),
    "closers of lines below are there": (
        "typescript",
        "run(() => {\n  │⟦step();⟧\n});\n",
        "step();\n});\n\nrun(",
        "repeats-suffix",
    ),
    "the closer nobody wrote yet is welcome": (
        "javascript",
        "function go() {\n  │⟦return 1;\n}⟧\n",
        "return 1;\n}\n\nfunction stop() {\n",
        "block-end",
    ),
    "a brace in a string is text": ("javascript", "const open = │⟦'}';⟧\n", "'}';\n", "shown"),
    "a brace in a comment is text": ("go", "\tx := 1 // │⟦closes }⟧\n", "closes }\n", "shown"),
    "a pattern of a shell case": ("shellscript", "case $1 in\n  │⟦start) run ;;⟧\nesac\n", "start) run ;;\n", "shown"),
    "rust lifetimes are no strings": (
        "rust",
        "fn pick<'a>(│⟦x: &'a str⟧) -> &'a str {\n",
        "x: &'a str) -> &'a str {\n",
        "repeats-closer",
    ),
    "the rest of the line in the middle of the model's": (
        "python",
        "total = │⟦price⟧ * count\n",
        "price * count + tax\n",
        "repeats-suffix",
    ),
    "a letter in common is no overlap": ("python", "f(│⟦data⟧a, b)\n", "data", "shown"),
    "the string that the model closes itself": ("python", 's = "│⟦a" + "b⟧"\n', 'a" + "b"', "repeats-suffix"),
    "a space before what follows stays": ("python", "x = │⟦base ⟧+ offset\n", "base + offset\n", "repeats-suffix"),
    "a brace pressed open over lines": (
        "javascript",
        "call({│⟦\n  a: 1,\n⟧})\n",
        "\n  a: 1,\n})\n",
        "repeats-suffix",
    ),
    "a function between brackets stays at them": (
        "javascript",
        "run(│⟦() => {\n  step();\n}⟧)\n",
        "() => {\n  step();\n}\n",
        "shown",
    ),
    "words after the cursor: one line only": ("python", "x = │⟦a⟧ if b else c\n", "a\ny = 2\n", "shown"),
    "two lines below are repeated": (
        "python",
        "def f():\n    │⟦a = 1⟧\n    b = 2\n    return a + b\n",
        "a = 1\n    return a + b\n",
        "repeats-suffix",
    ),
    "the line below, cut short by the budget": (
        "python",
        "def f():\n    │⟦a = 1⟧\n    return a + b\n",
        "a = 1\n    return a",
        "repeats-suffix",
    ),
    "the line below, from its start": ("python", "def f():\n    │\n    return a\n", "return a\n", "repeats-suffix"),
    "a closer equal to the one below may be ours": (
        "c",
        "switch (x) {\ncase 1:\n│⟦if (y) {\n  z();\n}⟧\n}\n",
        "if (y) {\n  z();\n}",
        "shown",
    ),
    "part indented, the model goes on from the cursor": (
        "python",
        "class A:\n    def f(self):\n    │⟦    return 1⟧\n",
        "    return 1\n",
        "shown",
    ),
    "part indented, the model counts from column 0": (
        "python",
        "class A:\n    def f(self):\n    │⟦    return 1⟧\n",
        "        return 1\n",
        "shown",
    ),
    "one space of a tokenizer is no indentation": ("python", "def f():\n    │⟦return 1⟧\n", " return 1\n", "shown"),
    "no second space": ("python", "x = │⟦1⟧\n", " 1\n", "shown"),
    "a block written from column 0": (
        "python",
        "def f(x):\n    │⟦if x:\n        return 1\n    return 2⟧\n",
        "if x:\n    return 1\nreturn 2\n",
        "shown",
    ),
    "spaces become the document's tabs": (
        "go",
        "func f() {\n\tif ok {\n\t\t│⟦for {\n\t\t\trun()\n\t\t}⟧\n\t}\n}\n",
        "for {\n            run()\n        }\n",
        "shown",
    ),
    "tabs become the document's spaces": (
        "javascript",
        "function f() {\n  a();\n  if (b) {│⟦\n    c();\n  }⟧\n}\n",
        "\n\t\tc();\n\t}\n",
        "shown",
    ),
    "an empty line in a block does not end it": (
        "python",
        "def f():\n    │⟦a = 1\n\n    return a⟧\n",
        "a = 1\n\n    return a\n\n\ndef g():\n",
        "block-end",
    ),
    "the next definition is another suggestion": (
        "python",
        "def f():│⟦\n    return 1⟧\n",
        "\n    return 1\n\n\ndef g():\n    return 2\n",
        "block-end",
    ),
    "a Go case stands where its switch stands": (
        "go",
        "func f() {\n\t│⟦switch x {\n\tcase 1:\n\t\ta()\n\t}⟧\n}\n",
        "switch x {\n\tcase 1:\n\t\ta()\n\t}\n}\n",
        "repeats-suffix",
    ),
    "a Ruby end that is there already": (
        "ruby",
        "def f\n  │⟦a = 1⟧\nend\n",
        "a = 1\nend\n",
        "repeats-suffix",
    ),
    "a Ruby end that is missing": ("ruby", "def f\n  │⟦a = 1\nend⟧\n", "a = 1\nend\n", "shown"),
    "a CRLF document whose model writes CRLF": (
        "python",
        "if a:\r\n    │⟦b()\r\n    c()⟧\r\n",
        "b()\r\n    c()\r\n",
        "shown",
    ),
    "an answer with a sentence before its fence": (
        "python",
        "def add(a, b):\n    │⟦return a + b⟧\n",
        "Sure! Here is the completed function:\n\n```python\nreturn a + b\n```\nThis code adds.\n",
        "fence",
    ),
    "nothing but sentences": (
        "python",
        "def add(a, b):\n    │\n",
        "The code you provided is incomplete.\n",
        "prose",
    ),
    "an explanation after the code": (
        "python",
        "│⟦x = 1⟧",
        "x = 1\n\nThis code sets a variable.\n",
        "prose",
    ),
    "a sentence in a comment": ("python", "# │⟦Here is where it begins.⟧\n", "Here is where it begins.\n", "shown"),
    "a fence in Markdown": ("markdown", "Run:\n\n│⟦```sh\nmake\n```⟧\n", "```sh\nmake\n```\n", "shown"),
    "special text of another family": ("java", "int x = │⟦1;⟧\n", "1;<fim_suffix>rest", "stop"),
    "only special text": ("java", "int x = │\n", "<|im_end|>\n", "stop"),
    "strikethrough in HTML": ("html", "<p>│⟦<s>old</s>⟧</p>\n", "<s>old</s></p>\n", "repeats-suffix"),
    "a comparison is no special text": ("c", "if (│⟦a < b⟧)\n", "a < b)", "repeats-suffix"),
    "a loop after good lines": ("python", "│⟦a = 1⟧\n", "a = 1\nb = " + "-x" * 30, "degenerate"),
    "a row of data is no loop": (
        "python",
        "row = [│⟦0, 0, 0, 0, 0, 0, 0, 0⟧]\n",
        "0, 0, 0, 0, 0, 0, 0, 0]",
        "repeats-suffix",
    ),
    "a ruler is no loop": ("python", "# │⟦" + "-" * 77 + "⟧\n", "-" * 77 + "\n", "shown"),
    "one line again and again": ("python", "│⟦step(x)⟧\n", "step(x)\nstep(x)\nstep(x)\nst", "repeats-lines"),
    "both lines above again": (
        "python",
        "a = read()\nb = read()\n│\n",
        "a = read()\nb = read()\n",
        "repeats-above",
    ),
    "half a character at the end": ("python", "s = '│⟦ok ⟧x'\n", "ok \ufffd", "shown"),
    "blank lines without end": ("python", "x = 1│⟦\ny = 2⟧", "\ny = 2\n\n\n\n\n", "blank-lines"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_drawing_is_what_is_shown(name: str) -> None:
    language, drawing, raw, reason = GOLDEN[name]
    context, _ = parse(drawing, language)
    suggestion = suggest(context, raw)
    assert draw(context, suggestion) == drawing
    assert suggestion.reason == reason


def test_one_line_when_several_are_not_wanted() -> None:
    context, inserted = parse("x = │⟦1⟧\n")
    assert suggest(context, "1\ny = 2\n", multiline=False).text == inserted


def test_a_stop_of_the_profile_ends_the_text() -> None:
    context = Context("x = ", "\n", "python", stops=("\n\n", "# END"))
    assert suggest(context, "1\ny = 2\r\n\r\nz = 3").text == "1\ny = 2"
    assert suggest(context, "1 # END # more").text == "1"


def test_a_mixed_document_gets_the_line_end_it_uses_most() -> None:
    context = Context("a = 1\r\nb = 2\r\nc = 3\nif a:\r\n    ", "", "python")
    assert suggest(context, "d()\n    e()").text == "d()\r\n    e()"


@pytest.mark.parametrize("drawing", ["no cursor", "two│cursors│", "x│⟦open"])
def test_a_drawing_that_says_nothing_is_refused(drawing: str) -> None:
    with pytest.raises(ValueError, match=r"cursor|insertion"):
        parse(drawing)


def test_a_drawing_reads_as_it_is_drawn() -> None:
    context, inserted = parse("f(│⟦a,\n  b⟧)\n")
    assert (context.before, inserted, context.after) == ("f(", "a,\n  b", ")\n")
