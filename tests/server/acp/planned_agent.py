"""`warmline acp` over a planned engine, as a process: its arguments are the plans."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "lsp")]
from planned_engine import PlannedEngine  # noqa: E402
from warmline.registry import warmline_home  # noqa: E402
from warmline_server.acp.serving import serve  # noqa: E402
from warmline_server.stdio import protect  # noqa: E402

if __name__ == "__main__":
    engine = PlannedEngine(*sys.argv[1:])
    asyncio.run(serve(protect(), warmline_home(), lambda: engine))  # type: ignore[arg-type, return-value]
