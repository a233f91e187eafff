"""Questions to Git, in folders that may be anybody's: no program that a repository's own settings name is run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from ..processes import end

# What is given on the command line counts more than any file of settings. A folder that looks like a repository, but is
# not called `.git`, may have come with a clone, or have been written by a model: it is not taken for one.
_SETTINGS: Final = ("core.fsmonitor=", f"core.hooksPath={os.devnull}", "safe.bareRepository=explicit")
# A repository that lacks objects would fetch them, by a program that it names.
_ENVIRONMENT: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
}


async def ask(folder: Path, *arguments: str, seconds: float) -> tuple[int, bytes] | None:
    """Run a subcommand of Git's that only reads, in a folder.

    Returns
    -------
    tuple of int and bytes, or None
        Its exit code and its output; None where there is no Git, or no answer in time.
    """
    # Variables of Git's own would send it to another repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = (part for setting in _SETTINGS for part in ("-c", setting))
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", "--no-pager", *settings, "-C", str(folder), *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**inherited, **_ENVIRONMENT},
        )
    except OSError:
        return None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            output = await process.stdout.read()
            return await process.wait(), output
    except TimeoutError:
        return None
    finally:
        await end(process)
