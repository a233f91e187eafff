"""The protocol's official JSON schema: which definition a frame has to meet, and what did not meet its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator


class ProtocolSchema:
    """Checks frames; what is wrong is collected in `faults`, since an observer's exception would be swallowed."""

    def __init__(self, path: Path) -> None:
        self._whole = json.loads(path.read_text())
        self._names: dict[tuple[str, str, str], str] = {}
        for name, part in self._whole["$defs"].items():
            if "x-method" in part:
                kind = next(kind for kind in ("Request", "Response", "Notification") if name.endswith(kind))
                self._names[part["x-side"], part["x-method"], kind] = name
        self._validators: dict[str, Draft202012Validator] = {}
        self.faults: list[str] = []
        self.checked = 0

    def check_from_agent(self, message: dict[str, Any], asked: dict[Any, str]) -> None:
        """Check what the agent sends; `asked` gives the method of each request that it answers."""
        if "method" in message:
            kind = "Request" if "id" in message else "Notification"
            self._check("client", message["method"], kind, message["params"])
        elif "error" in message:
            self._against("Error", message["error"])
        else:
            self._check("agent", asked[message["id"]], "Response", message["result"])

    def check_from_client(self, message: dict[str, Any], asked: dict[Any, str]) -> None:
        """Check what the client asks, tells and answers, so that no test shows what no client may do."""
        if "method" in message:
            kind = "Request" if "id" in message else "Notification"
            side = "protocol" if message["method"].startswith("$/") else "agent"
            self._check(side, message["method"], kind, message.get("params"))
        elif "result" in message:
            self._check("client", asked[message["id"]], "Response", message["result"])

    def _check(self, side: str, method: str, kind: str, value: Any) -> None:
        name = self._names.get((side, method, kind))
        if name is None:
            self.faults.append(f"the protocol has no {kind} of {method}")
        else:
            self._against(name, value)

    def _against(self, name: str, value: Any) -> None:
        if name not in self._validators:
            self._validators[name] = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": self._whole["$defs"]})
        self.checked += 1
        for error in self._validators[name].iter_errors(value):
            self.faults.append(f"{name}: {error.message[:300]} at {list(error.path)} in {str(value)[:300]}")
