"""A language server that says what it is told to: `scripted_server.py JSON`.

`info` is its `serverInfo`; `says` are notifications that it sends once it is initialized; `items` is what it answers
to each request for inline completions, `results` to commands, by name. Without `info` it never answers anything.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from warmline_server.lsp.framing import Frames, frame


class _Stdin:
    def read(self, size: int) -> bytes:
        return sys.stdin.buffer.read1(size)


def send(message: dict[str, Any]) -> None:
    """Send one message."""
    sys.stdout.buffer.write(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()))
    sys.stdout.buffer.flush()


def result_of(script: dict[str, Any], message: dict[str, Any]) -> Any:
    """Give the result of a request."""
    if message["method"] == "textDocument/inlineCompletion":
        return script.get("items")
    if message["method"] == "workspace/executeCommand":
        return script.get("results", {}).get(message["params"]["command"])
    return None


def main() -> None:
    """Answer until the editor leaves."""
    script = json.loads(sys.argv[1])
    frames = Frames(_Stdin())  # type: ignore[arg-type]
    while (body := frames.next()) is not None:
        message = json.loads(body)
        method = message.get("method")
        if method == "exit":
            return
        if "info" not in script:
            continue
        if method == "initialize":
            offered = {
                "textDocumentSync": {"openClose": True, "change": 2},
                "inlineCompletionProvider": True,
                "positionEncoding": "utf-16",
                "executeCommandProvider": {"commands": ["warmline.accepted"]},
            }
            send({"id": message["id"], "result": {"capabilities": offered, "serverInfo": script["info"]}})
            continue
        if method == "initialized":
            for each in script.get("says", []):
                send(each)
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": result_of(script, message)})


if __name__ == "__main__":
    main()
