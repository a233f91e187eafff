"""Where a suggestion goes: the document around the cursor, and what the filters ask about it (computed once)."""

import re
from dataclasses import dataclass
from functools import cached_property

from warmline_server.suggest import brackets, languages, line_ends

# Enough to see the blocks around the cursor; a document of 16,000 lines must not make a keystroke slow.
_REACH = 8_000
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Context:
    """The document around the cursor; `after` begins at the cursor.

    Parameters
    ----------
    before, after
        Document text, with the document's own line ends. More than some thousand characters are not looked at.
    language
        LSP language id. An unknown one is fine.
    stops
        Texts that end a generation besides the special tokens every model family has, as the variant's profile says.
    tab_size
        Columns of one tab, as the editor shows it.

    Keep one object for all tokens of a generation: what is derived from the document is computed once for each object.
    """

    before: str
    after: str
    language: str
    stops: tuple[str, ...] = ()
    tab_size: int = 4

    @cached_property
    def line_end(self) -> str:
        return line_ends.dominant(self.before[-_REACH:] + self.after[:_REACH])

    @cached_property
    def _lines_before(self) -> list[str]:
        return line_ends.to_lf(self.before[-_REACH:]).split("\n")

    @cached_property
    def _lines_after(self) -> list[str]:
        return line_ends.to_lf(self.after[:_REACH]).split("\n")

    @cached_property
    def cursor_line(self) -> str:
        """The cursor's line up to the cursor."""
        return self._lines_before[-1]

    @cached_property
    def blank(self) -> bool:
        """Whether nothing but indentation stands before the cursor on its line."""
        return not self.cursor_line.strip()

    @cached_property
    def rest(self) -> str:
        """The cursor's line from the cursor on, without trailing spaces."""
        return self._lines_after[0].rstrip()

    @cached_property
    def rest_has_words(self) -> bool:
        """Whether more than closers and punctuation follows on the line; then an insertion has to stay on it."""
        return _WORD.search(self.rest) is not None

    @cached_property
    def above(self) -> list[str]:
        """The lines above the cursor's, down to the nearest that is not blank; trailing spaces removed."""
        lines = [line.rstrip() for line in self._lines_before[-64:-1]]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @cached_property
    def below(self) -> list[str]:
        """The first four lines below the cursor's that are not blank; trailing spaces removed."""
        return [line.rstrip() for line in self._lines_after[1:] if line.strip()][:4]

    @cached_property
    def tabs(self) -> bool | None:
        """Whether the document indents with tabs; None where no line tells."""
        lines = [*self._lines_before, *self._lines_after[1:]]
        with_tabs = sum(line.startswith("\t") for line in lines)
        with_spaces = sum(line.startswith("  ") for line in lines)
        return None if with_tabs == with_spaces else with_tabs > with_spaces

    @cached_property
    def step(self) -> int:
        """Columns of one indentation step."""
        if self.tabs is not False:
            return self.tab_size
        lines = [*self._lines_before, *self._lines_after[1:]]
        widths = {len(line) - len(line.lstrip(" ")) for line in lines if line.strip()}
        return min((width for width in widths if 2 <= width <= 8), default=self.tab_size)

    @cached_property
    def prose(self) -> bool:
        """Whether the cursor is where sentences belong: a text document, a comment, a docstring."""
        if self.language in languages.PROSE:
            return True
        mark = languages.line_comment(self.language)
        line = self.cursor_line
        if (mark and mark in line) or line.lstrip().startswith(("*", "/*", "<!--")):
            return True
        text = "\n".join(self._lines_before)
        if mark == "//" and text.rfind("/*") > text.rfind("*/"):
            return True
        return any(text.count(quote) % 2 for quote in ('"""', "'''"))

    @cached_property
    def opened(self) -> list[str]:
        """The brackets open at the cursor, outermost first."""
        return brackets.left_open(self._lines_before, self.language)

    @cached_property
    def closed(self) -> list[str]:
        """The closers after the cursor whose openers stand before it, innermost first."""
        first, *others = self._lines_after
        quote = brackets.open_quote(self.cursor_line, self.language)
        if quote is not None:
            first = first.partition(quote)[2]
        return brackets.left_closed([first, *others], self.language)

    @cached_property
    def spare(self) -> int:
        """How many brackets open at the cursor nothing closes yet."""
        return brackets.missing(self.opened, self.closed)

    @cached_property
    def line_spare(self) -> int:
        """How many brackets the cursor's line opens and does not close itself.

        On one line this is more certain than `spare`: a bracket lost far above can't mislead it.
        """
        opened = brackets.left_open([self.cursor_line], self.language)
        return brackets.missing(opened, brackets.left_closed([self.rest], self.language))
