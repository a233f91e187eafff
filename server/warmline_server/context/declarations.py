"""What a document declares: the first lines of its functions, classes and types, found by one look at each line.

No parser: a document that is being typed in mostly has none that takes it. A pattern for each language finds most of
what stands at the left margin or one level below it; what it misses, or takes too much of, is a line of context more
or less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Lines that are looked at: a look at 2000 takes some milliseconds.
MOST_LINES: Final = 2000
_LONGEST: Final = 200
_LINES_OF_ONE: Final = 8
# One level below the margin: members of what stands there. Deeper is of use to nobody outside.
_INDENT: Final = r"(?P<indent>\t| {0,4})(?=\S)"

_PYTHON: Final = r"(?:async +)?def +\w|class +\w"
_EXPORT: Final = r"(?:export +)?(?:default +)?(?:declare +)?"
_NO_CALL: Final = (
    r"(?!(?:if|else|for|foreach|while|switch|catch|return|function|with|do|new|throw|await|super|assert)\b)"
)
_ECMASCRIPT: Final = (
    rf"{_EXPORT}(?:(?:async +)?function\b|(?:abstract +)?class +\w|interface +\w|(?:const +)?enum +\w|namespace +\w"
    r"|type +\w+[^=(]{0,80}=|(?:const|let) +\w+[^=(]{0,80}= *(?:async *)?(?:\([^()]{0,150}\)[^=(]{0,80}|\w+ *)=>)"
    r"|(?:(?:public|private|protected|static|async|override|readonly|abstract|get|set) +){0,4}"
    rf"{_NO_CALL}#?\w+(?:<[^<>()]{{0,80}}>)?\([^;]*\{{$"
)
_GO: Final = r"func\b|type +\w"
_RUST: Final = (
    r"(?:pub(?:\([^)]*\))? +)?(?:(?:default|const|async|unsafe|extern(?: +\"[^\"]*\")?) +){0,4}"
    r"(?:fn|struct|enum|trait|union|type|mod) +\w|(?:unsafe +)?impl\b|macro_rules! *\w"
)
# A type, then a name, then its parameters; what ends in `;` is a prototype at the margin, and a call elsewhere.
_TYPED: Final = rf"{_NO_CALL}(?:[\w:]+(?:<[^;()]{{0,80}}>)?(?:\[\])*[ *&]+){{1,6}}[\w:~]+ *\("
_JAVA: Final = (
    r"(?:(?:public|protected|private|static|final|abstract|sealed|non-sealed|strictfp) +){0,5}"
    rf"(?:class|interface|enum|record|@interface) +\w"
    rf"|(?:(?:public|protected|private|static|final) +){{0,4}}(?:<[^;()]{{0,80}}> *)?{_TYPED}[^;]*\{{$"
    r"|(?:public|protected|private) +\w+ *\([^;]*\{$"
)
_C: Final = (
    r"(?:typedef +)?(?:struct|enum|union|class|namespace)\b[^;=()]*\{?$|typedef\b[^;]*;$|using +\w+ *=|template *<"
    rf"|{_TYPED}[^;]*[{{),]$"
)
_PROTOTYPE: Final = rf"|(?<![ \t]){_TYPED}[^;{{}}]*\)[^;{{}}]*;$"
_LUA: Final = r"(?:local +)?function +[\w.:]+|(?:local +)?[\w.]+ *= *function\b"

_PATTERNS: Final = {
    language: re.compile(rf"{_INDENT}(?:{pattern})")
    for pattern, languages in (
        (_PYTHON, "python cython"),
        (_ECMASCRIPT, "javascript javascriptreact typescript typescriptreact"),
        (_GO, "go"),
        (_RUST, "rust"),
        (_JAVA, "java"),
        (_C + _PROTOTYPE, "c cpp cuda-cpp objective-c objective-cpp"),
        (_LUA, "lua"),
    )
    for language in languages.split()
}
_SPACES: Final = re.compile(r"\s+")
_GAP: Final = re.compile(r"(?<=[(\[]) | (?=[)\]])")
_BODY: Final = re.compile(r"\{\s*\}?;?$")


class Declaration(NamedTuple):
    """The first line of what is declared, on one line, without the bracket of its body.

    `line` has the indentation of the document; `parent` is the line of what it is a member of, empty at the margin.
    """

    line: str
    parent: str = ""


def declarations(text: str, language: str) -> tuple[Declaration, ...]:
    r"""Find what a text declares, in its order, each once; nothing for a language that has no pattern.

    Parameters
    ----------
    text
        With ``\n`` line ends; what comes after `MOST_LINES` lines is not looked at.
    language
        LSP language id.
    """
    pattern = _PATTERNS.get(language)
    return tuple(dict.fromkeys(_found(text, pattern))) if pattern else ()


def bare(line: str) -> str:
    """Take indentation and the begin of a body from a line, so that it compares with a declaration."""
    return _BODY.sub("", line.strip()).rstrip()


def _found(text: str, pattern: re.Pattern[str]) -> Iterator[Declaration]:
    lines = text.split("\n", MOST_LINES)[:MOST_LINES]
    parent = ""
    for number, line in enumerate(lines):
        if len(line) > _LONGEST or (match := pattern.match(line)) is None:
            continue
        whole = _whole(lines, number)
        if whole is None:
            continue
        if not match["indent"]:
            parent = whole
            yield Declaration(whole)
        elif parent:
            yield Declaration(match["indent"] + whole, parent)


def _whole(lines: list[str], number: int) -> str | None:
    """Join the lines of one declaration up to where its brackets are closed; None when that is far away."""
    text, open_brackets = "", 0
    for line in lines[number : number + _LINES_OF_ONE]:
        text += f" {line.strip()}"
        if len(text) > _LONGEST:
            break
        open_brackets += sum(map(line.count, "([")) - sum(map(line.count, ")]"))
        if open_brackets <= 0:
            return _GAP.sub("", _SPACES.sub(" ", bare(text)))
    return None
