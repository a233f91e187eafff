"""Messages as some clients write them, made what lsprotocol takes.

It refuses numbers above 2^31-1, which some clients send for the end of a line, a version of null, and the floats of
clients whose language knows no integers. A refused change would leave the document as it was, and suggestions would go
on about a text that is not there any more.
"""

from __future__ import annotations

from typing import Any, Final

from lsprotocol import types

#: What changes a document; without one of them our text may be another than the editor's.
SYNCHRONISING: Final = frozenset({types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE})

_LARGEST: Final = 2**31 - 1
_SMALLEST: Final = {"line": 0, "character": 0, "version": -(2**31)}


def repaired(params: Any, method: str, version: int) -> Any:
    """Give a copy of a message's parameters with positions and versions that LSP has.

    Parameters
    ----------
    version
        What stands in for a document's version where there is none.
    """
    params = _in_range(params)
    document = document_of(params)
    if document is not None and method in SYNCHRONISING:
        document.setdefault("version", version)
        if document["version"] is None:
            document["version"] = version
    return params


def document_of(params: Any) -> dict[str, Any] | None:
    """Give the ``textDocument`` of a message's parameters, if it has one."""
    document = params.get("textDocument") if isinstance(params, dict) else None
    return document if isinstance(document, dict) else None


def uri_of(params: Any) -> str | None:
    """Give the URI of the document that a message is about, if it names one."""
    uri = (document_of(params) or {}).get("uri")
    return uri if isinstance(uri, str) else None


def _in_range(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_range(each) for each in value]
    if not isinstance(value, dict):
        return value
    # The deprecated length of a range says nothing that the range doesn't.
    return {
        key: _number(each, _SMALLEST[key]) if key in _SMALLEST else _in_range(each)
        for key, each in value.items()
        if key != "rangeLength"
    }


def _number(value: Any, smallest: int) -> Any:
    # The comparison also keeps infinity from int, and is false for a NaN.
    if isinstance(value, float) and (abs(value) >= _LARGEST or value.is_integer()):
        value = _LARGEST if value >= _LARGEST else smallest if value <= -_LARGEST else int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, smallest), _LARGEST)
    return value
