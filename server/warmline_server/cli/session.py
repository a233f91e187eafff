"""The engine for the length of one command."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from warmline.errors import TrustError
from warmline.host.client import EngineClient
from warmline.registry import warmline_home
from warmline.workspace import Workspace

from .output import Output


@contextlib.asynccontextmanager
async def engine(
    output: Output, approved: frozenset[str] = frozenset(), *, start: bool = True
) -> AsyncIterator[EngineClient]:
    """Open the engine and let go of it again; stdout is guarded before any native library is loaded.

    Parameters
    ----------
    approved
        Digests that are approved for this command only, beside those in the user's trust store. Such a command has an
        engine of its own: the host that others use must not take its approvals over.
    start
        Whether an engine host is started when none runs; else the command makes do with an engine of its own.
    """
    output.guard()
    home = warmline_home()
    client: EngineClient
    if approved or not (start or await host_runs()):
        from warmline.host.local import LocalEngine

        client = LocalEngine(home, approved)
    else:
        from warmline.host.client import connect

        client = connect(home)
    try:
        yield client
    finally:
        await client.close()


@contextlib.contextmanager
def asking_for_approval(workspace: Workspace | None, variant: str | None = None) -> Iterator[None]:
    """Make the remedy of an unapproved artifact the command that approves it, as it is to be typed here.

    Parameters
    ----------
    variant
        The variant that was asked for by name, in place of the workspace's own.
    """
    try:
        yield
    except TrustError as error:
        if error.code == "trust.unapproved" and workspace is not None:
            words = ["warmline trust add --workspace"]
            if not Path.cwd().is_relative_to(workspace.root):
                words.append(shlex.quote(str(workspace.root)))
            if variant is not None:
                words.append(f"--variant {shlex.quote(variant)}")
            error.remedy = f"If you trust where it came from: {' '.join(words)}"
        raise


async def host_runs() -> bool:
    """Tell whether an engine host of this store answers."""
    from warmline.host.paths import host_paths
    from warmline.host.process import info

    return await info(host_paths(warmline_home())) is not None
