"""Writes docs/errors.md from the table of rules; `--check` only tells whether it is current."""

import sys
from pathlib import Path

from warmline.rules import as_markdown

PAGE = Path(__file__).with_name("errors.md")

if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != as_markdown())
    PAGE.write_text(as_markdown(), "utf-8")
