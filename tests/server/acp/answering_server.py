"""A small MCP server on stdio that answers each tool's call as it is told to.

python answering_server.py TOOLS     # JSON: names, each with its input schema's properties and its result
"""

from __future__ import annotations

import json
import sys

TOOLS = json.loads(sys.argv[1])

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "t", "version": "1"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        schemas = {name: {"type": "object", "properties": tool["properties"]} for name, tool in TOOLS.items()}
        result = {"tools": [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]}
    else:
        result = TOOLS[params["name"]]["result"]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
