"""A document and a cursor as they are given on the command line: FILE:LINE:COL."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from warmline.digests import open_regular
from warmline.errors import ArtifactError, WarmlineError

from warmline_server.lsp.documents import DocumentStore, Snapshot

MAX_BYTES: Final = 64 << 20
STDIN: Final = "-"
_NUMBER: Final = re.compile("0{0,20}[1-9][0-9]{0,9}")
_SHOWN: Final = 200  # characters of a wrong place in its error

# LSP's language ids by file ending; an editor tells them to the language server, nobody tells them to a command.
_LANGUAGES: Final = {
    ending: language
    for language, endings in {
        "c": "c",
        "cpp": "cc cpp cxx h hh hpp hxx",
        "csharp": "cs",
        "css": "css",
        "dart": "dart",
        "elixir": "ex exs",
        "go": "go",
        "haskell": "hs",
        "html": "htm html",
        "java": "java",
        "javascript": "cjs js mjs",
        "javascriptreact": "jsx",
        "json": "json",
        "julia": "jl",
        "kotlin": "kt kts",
        "lua": "lua",
        "markdown": "markdown md",
        "perl": "pl pm",
        "php": "php",
        "plaintext": "txt",
        "python": "py pyi pyw",
        "restructuredtext": "rst",
        "ruby": "rb",
        "rust": "rs",
        "scala": "scala",
        "shellscript": "bash sh zsh",
        "sql": "sql",
        "swift": "swift",
        "toml": "toml",
        "typescript": "cts mts ts",
        "typescriptreact": "tsx",
        "xml": "xml",
        "yaml": "yaml yml",
        "zig": "zig",
    }.items()
    for ending in endings.split()
}


@dataclass(frozen=True, slots=True)
class Place:
    """A file (or `-`) and a cursor in it: `line` and `column` count from 1, the column in characters."""

    file: str
    line: int
    column: int


def parse_place(text: str) -> Place:
    """Read FILE:LINE:COL; the file's own name may hold colons.

    Raises
    ------
    typer.BadParameter
        When the last two parts are not numbers from 1 on.
    """
    file, _, rest = text.rpartition(":")
    file, _, line = file.rpartition(":")
    if not file or not all(_NUMBER.fullmatch(part) and int(part) < 1 << 31 for part in (line, rest)):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise typer.BadParameter(f"{shown!r} is not FILE:LINE:COL, with LINE and COL counted from 1")
    return Place(file, int(line), int(rest))


@dataclass(frozen=True, slots=True)
class Document:
    """A text as the language server would hold it, and the file that it came from, if any."""

    path: Path | None
    snapshot: Snapshot

    def cursor(self, place: Place) -> tuple[int, int]:
        """Return the cursor 0-based.

        Raises
        ------
        WarmlineError
            ``document.line``: the document has fewer lines, or the line fewer columns.
        """
        count = self.snapshot.line_count
        if place.line > count:
            raise WarmlineError(
                f"the document has {count} lines, there is no line {place.line}",
                code="document.line",
                file=place.file,
                remedy="Give a line that exists",
            )
        line = place.line - 1
        end = len(self.snapshot.line(line)) + 1
        if place.column > end:
            raise WarmlineError(
                f"line {place.line} ends at column {end}, there is no column {place.column}",
                code="document.line",
                file=place.file,
                remedy=f"Give a column that exists; {place.line}:{end} is the line's end",
            )
        return line, place.column - 1

    def offset(self, line: int, column: int) -> int:
        """Return how many characters are before a cursor (0-based)."""
        return len(self.snapshot.slice_lines(0, line)) + column

    def with_text(self, line: int, column: int, typed: str) -> Document:
        """Return the document as it is after `typed` was typed at a cursor (0-based)."""
        at = self.offset(line, column)
        return opened(self.path, self.snapshot.slice(0, at) + typed + self.snapshot.slice(at, self.snapshot.length))


def read(file: str) -> Document:
    """Read a document from a file, or from stdin when it is called `-`.

    Raises
    ------
    WarmlineError
        ``document.missing``, ``document.unreadable``, ``document.too_large`` or ``document.encoding``.
    """
    if file == STDIN:
        return as_document(None, sys.stdin.buffer.read(MAX_BYTES + 1))
    path = Path(os.path.abspath(file))
    try:
        with open_regular(path) as fd, open(fd, "rb", closefd=False) as source:
            data = source.read(MAX_BYTES + 1)
    except ArtifactError as error:
        missing = error.code == "artifact.missing"
        raise WarmlineError(
            error.message,
            code="document.missing" if missing else "document.unreadable",
            file=file,
            remedy="Check the file's name" if missing else "Name a text file that you may read",
        ) from None
    except OSError as error:
        raise WarmlineError(
            f"the file cannot be read: {error.strerror}", code="document.unreadable", file=file, remedy="Check the disk"
        ) from None
    return as_document(path, data)


def as_document(path: Path | None, data: bytes) -> Document:
    """Decode a document; errors as in `read`."""
    name = str(path) if path else STDIN
    if len(data) > MAX_BYTES:
        raise WarmlineError(
            f"the document is larger than {MAX_BYTES >> 20} MiB",
            code="document.too_large",
            file=name,
            remedy="Name a source file",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WarmlineError(
            f"the document is not UTF-8 text (byte {error.start + 1})",
            code="document.encoding",
            file=name,
            remedy="Convert it to UTF-8, if it is text at all",
        ) from None
    return opened(path, text)


def opened(path: Path | None, text: str) -> Document:
    """Make a document of a text, in the language that the file's ending stands for."""
    language = _LANGUAGES.get(path.suffix[1:].lower(), "") if path else ""
    uri = path.as_uri() if path else "untitled:stdin"
    return Document(path, DocumentStore("utf-32").open(uri, language, 0, text))
