"""Runs the real `warmline` with an engine that says what the question asks for: what no small model can be made to say.

A question that names one of `ANSWERS` gets that answer; one with `hang` gets half of one, and then nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "server" / "lsp"))
from scripted import ScriptedEngine, identity
from warmline.errors import BackendError
from warmline.host.wire import ChatRequest, Delta, Done, Event, Outcome, Started
from warmline_server.cli import main
from warmline_server.lsp import server

HOSTILE: Final = """\
Look: <img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>
<iframe src="https://example.org/frame"></iframe> <b onmouseover=hacked()>bold</b>

![picture](https://example.org/pixel.png) [run me](command:workbench.action.terminal.new)
[file](file:///etc/passwd) [code](vscode://evil/x) [js](javascript:alert(1)) [site](https://example.org/?q=1)

\x1b[31mred\x1b[0m \u202etxt.exe &#x202e;more

```html
<img src=x onerror="window.hacked=1">
```

| <i>a</i> | b |
|---|---|
| [x](command:evil) | `<u>` |
"""
CODE: Final = "Like this:\n\n```python\ndef add(a, b):\n    return a + b\n```\n"
THOUGHT: Final = "<think>Hm, <b>hard</b>.</think>Yes."
ANSWERS: Final = {"hostile": HOSTILE, "code": CODE, "think": THOUGHT}


class Scripted(ScriptedEngine):
    """Answers as the last message asks."""

    async def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        question = request.messages[-1].content
        if "fail" in question:
            raise BackendError("the engine crashed", code="backend.crashed", remedy="Ask again")
        yield Started(
            identity=identity(request.variant),
            prompt_tokens=20,
            reused_tokens=8,
            reason="prefix:8/20",
            fim="none",
            ttft_ms=1.0,
        )
        if "hang" in question:
            yield Delta(text="Half of an answer")
            await asyncio.Event().wait()
        text = next(
            (answer for name, answer in ANSWERS.items() if name in question), f"{len(request.messages)} messages"
        )
        for start in range(0, len(text), 7):
            yield Delta(text=text[start : start + 7])
        yield Done(outcome=Outcome.STOP, text=text, predicted_tokens=3, total_ms=2.0)


if __name__ == "__main__":
    if pids := os.environ.get("WARMLINE_TEST_PIDS"):
        (Path(pids) / str(os.getpid())).touch()
    server._make_engine = Scripted
    main()
