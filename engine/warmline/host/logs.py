"""The engine's log: a line each event, for people; what programs want of it as JSON at the line's end, after a tab."""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

_BYTES: Final = 2 << 20
_KEPT: Final = 3
_FIELDS: Final = "warmline_fields"
_LINE: Final = re.compile(
    r"(?P<time>\S+) (?P<level>[A-Z]+) (?P<logger>[\w.]+): (?P<message>[^\t]*)(?:\t(?P<fields>\{.*\}))?"
)


def note(log: logging.Logger, message: str, **fields: Any) -> None:
    """Log an event with its facts: JSON values by name."""
    log.info(message, extra={_FIELDS: fields})


class Lines(logging.Formatter):
    """``2026-11-30T09:00:00.000Z INFO warmline.host.work: answered<TAB>{"kind": "complete", ...}``.

    One line, whatever is in it. Of an exception its place is logged and not its words: those may be document text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        words = record.getMessage().replace("\\", "\\\\").replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
        fields = dict(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
            fields["traceback"] = "".join(traceback.format_tb(record.exc_info[2]))
        # ASCII: no line separator of another kind is left in it.
        told = f"\t{json.dumps(fields, default=str)}" if fields else ""
        return f"{at} {record.levelname} {record.name}: {words}{told}"


def log_to(file: Path) -> None:
    """Have this process log to a file, which is rotated at 2 MiB; three older ones are kept."""
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=_BYTES, backupCount=_KEPT, encoding="utf-8")
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def parsed(line: str) -> dict[str, Any] | None:
    """Read a line back: ``time``, ``level``, ``logger``, ``message``, ``fields``; None for what native code wrote."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    try:
        fields = json.loads(found["fields"] or "{}")
    except ValueError:
        return None
    return {**found.groupdict(), "fields": fields}
