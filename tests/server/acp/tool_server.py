"""A small MCP server on stdio: `add` adds, `die` ends the process, `wait` never answers, two say who they are.

python tool_server.py [MORE]     # with so many more tools, each a line long, listed ten at a time
"""

from __future__ import annotations

import json
import sys

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [
    {"name": "add", "description": "adds", "inputSchema": NUMBERS},
    {"name": "die", "inputSchema": {"type": "object", "propertyNames": {"pattern": "x"}}},
    {"name": "wait", "inputSchema": {"type": "object"}},
    {"name": "who am", "inputSchema": {"type": "object"}},
    {"name": "who-am", "inputSchema": {"type": "object"}},
]
PAGE = 10
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 0):
    TOOLS.append({"name": f"more-{number}", "description": "does what is asked " * 8, "inputSchema": NUMBERS})

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    answer: dict[str, object] = {}
    if method == "initialize":
        info = {"name": "t", "version": "1"}
        version = params["protocolVersion"]
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        at = int(params.get("cursor") or 0)
        after = {"nextCursor": str(at + PAGE)} if at + PAGE < len(TOOLS) else {}
        answer = {"result": {"tools": TOOLS[at : at + PAGE], **after}}
    elif method == "tools/call" and params["name"] == "add":
        total = params["arguments"]["a"] + params["arguments"]["b"]
        answer = {"result": {"content": [{"type": "text", "text": f"sum {total}"}]}}
    elif method == "tools/call" and params["name"].startswith("who"):
        answer = {"result": {"content": [{"type": "text", "text": params["name"]}]}}
    elif method == "tools/call" and params["name"] == "die":
        sys.exit(1)
    elif method == "tools/call":
        continue
    else:
        answer = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
