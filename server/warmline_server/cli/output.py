"""What the commands print: text for people, JSON for programs, and exit codes. Stdout is theirs alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

from warmline_server.characters import escape, escape_invisible
from warmline_server.paths import short_path, short_paths
from warmline_server.stdio import protect

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text
    from warmline.errors import WarmlineError


class Exit(IntEnum):
    """Exit codes; `HELP` says the same to people."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOTHING = 3
    INTERRUPTED = 130


HELP: Final = (
    "Exit codes: 0 done; 1 an error (variant, file, engine), named with its remedy; 2 wrong usage; "
    "3 nothing to suggest (complete); 130 interrupted. "
    'With --json stdout holds one JSON value, for errors {"error": {code, message, file, field, remedy}}; '
    "after an interrupt it holds none."
)

_UNBOUNDED: Final = 100_000
# What could drive a terminal or turn the reading direction; line feed and tab are layout, not control, in code.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Write control characters as escapes (``\x1b``), so that text from files and models cannot act on a terminal."""
    return _CONTROL.sub(lambda match: escape(match[0]), text)


def one_line(text: str) -> str:
    """Write all that cannot be seen as escapes, line ends and tabs too: for names, paths and other table cells."""
    if text.isascii() and text.isprintable():
        return text
    return escape_invisible(text.replace("\n", "\\n").replace("\t", "\\t"))


def cell(text: object, style: str = "") -> Text:
    """Make one line of data for rich: markup in it is text."""
    from rich.text import Text

    return Text(one_line(str(text)), style=style)


class Output:
    """Where one command prints. With `as_json`, stdout gets exactly one JSON value."""

    # The process's: an error is printed by another object than the one that the command had guard it.
    _guarded: ClassVar[TextIO | None] = None

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json

    def guard(self) -> None:
        """Keep stdout for this object and send what anything else prints there to stderr; call before native imports.

        llama.cpp and its like print to file descriptor 1 on their own, which would spoil JSON and tables. Stdin reads
        as empty from here on.
        """
        if Output._guarded is None:
            writer = protect().writer
            Output._guarded = TextIOWrapper(writer, encoding=sys.stdout.encoding, errors="backslashreplace")

    def abandon(self) -> None:
        """Let all further output go nowhere: Python's own flush at exit must not complain about a lost stream again."""
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in {1, *([Output._guarded.fileno()] if Output._guarded else [])}:
            os.dup2(null, stream)
        os.close(null)

    @property
    def stdout(self) -> TextIO:
        """The process's real stdout, guarded or not."""
        return Output._guarded or sys.stdout

    def json(self, value: Any) -> None:
        """Print one JSON value, ASCII only: no locale and no lone surrogate can break it."""
        self.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
        self.stdout.flush()

    def text(self, text: str) -> None:
        """Print a text as it is but for control characters, on stdout."""
        self.stdout.write(visible(text) + "\n")
        self.stdout.flush()

    def table(self, *renderables: RenderableType) -> None:
        """Print rich tables and texts on stdout."""
        console = self._console(self.stdout)
        for renderable in renderables:
            console.print(renderable)
        self.stdout.flush()

    def note(self, *renderables: RenderableType) -> None:
        """Print for a person, on stderr; nothing with `as_json`."""
        if not self.as_json:
            self._console(sys.stderr).print(*renderables, soft_wrap=True)

    def aside(self, text: str) -> None:
        """Print a piece of what a person may care less for, dim, on stderr, without a line end."""
        from rich.text import Text

        if not self.as_json:
            self._console(sys.stderr).print(Text(visible(text), style="dim"), end="", soft_wrap=True)

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show on stderr that something takes a while; silent with `as_json` and where no person looks."""
        if self.as_json or not sys.stderr.isatty():
            yield
            return
        with self._console(sys.stderr).status(cell(what)):
            yield

    def error(self, error: WarmlineError) -> None:
        """Print one error: JSON on stdout, or one block on stderr."""
        if self.as_json:
            self.json({"error": error.to_dict()})
            return
        from rich.table import Table

        where = short_path(error.file, Path.cwd()) if error.file else None
        fix = short_paths(error.remedy, Path.cwd())
        rows = [("file", where), ("field", error.field), ("fix", fix), ("code", error.code)]
        grid = Table.grid(padding=(0, 1))
        grid.add_column(justify="right")
        grid.add_column(overflow="fold")
        grid.add_row(cell("error", "bold red"), cell(short_paths(error.message, Path.cwd()), "bold"))
        for label, value in rows:
            if value:
                grid.add_row(cell(label, "dim"), cell(value))
        self._console(sys.stderr).print(grid)

    @staticmethod
    def _console(file: TextIO) -> Console:
        from rich.console import Console

        # What is piped has no width: a path that is broken in two is none for whatever reads it.
        width = None if file.isatty() else _UNBOUNDED
        return Console(file=file, width=width, highlight=False, markup=False, emoji=False)
