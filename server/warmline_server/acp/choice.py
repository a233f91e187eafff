"""Which exact variant a session runs: the workspace's, unless the person chose another, a context or a scale."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from pydantic import Field
from warmline.errors import ConfigError, WarmlineError
from warmline.filemodel import Model
from warmline.registry import Store, Workspace, find_workspace
from warmline.settings import default_variant
from warmline.store.resolution import patched
from warmline.variant import Overrides, Profile, ResolvedVariant, Scale

from ..paths import unreadable


class Choice(Model):
    """What a person chose in a session; what is None or not in `scales` is as the files say."""

    variant: str | None = None
    n_ctx: int | None = Field(default=None, ge=128, le=1 << 20)
    scales: dict[str, Scale] = Field(default_factory=dict)

    def with_scale(self, adapter: str, scale: Decimal) -> Choice:
        """Give the choice with another scale of one adapter."""
        return self.model_copy(update={"scales": {**self.scales, adapter: scale}})


def resolve(home: Path, cwd: Path, choice: Choice) -> ResolvedVariant:
    """Find the files of the variant that a session in `cwd` runs.

    A variant that was chosen by name runs as its own file says: the workspace's overrides belong to its own choice.

    Raises
    ------
    WarmlineError
        As `Store.resolve`; ``config.no_workspace`` where nothing was chosen, no workspace selects, and there is no
        default; ``config.unreadable``.
    """
    store, workspace = Store(home), None
    try:
        workspace = find_workspace(cwd)
        name, overrides = _named(home, cwd, workspace, choice)
        scales = {**overrides.scales, **choice.scales}
        profile = overrides.profile
        if choice.n_ctx is not None:
            profile = patched(profile, Profile(n_ctx=choice.n_ctx))
        return store.resolve(name, workspace, Overrides(scales=scales, profile=profile))
    except OSError as error:
        raise unreadable(error, home) from None
    except WarmlineError as error:
        _blame_session(error, choice, workspace)
        raise


def _blame_session(error: WarmlineError, choice: Choice, workspace: Workspace | None) -> None:
    """Take the blame for what was chosen in the session from the workspace's file, which says nothing of it."""
    if workspace is None or error.file != str(workspace.file):
        return
    scale = (error.field or "").removeprefix("overrides.scales.")
    if scale in choice.scales:
        what = "its scale was chosen in this session"
    elif choice.variant is not None:
        what = "it was chosen in this session"
    else:
        return
    error.message, error.file, error.field = f"{error.message}; {what}", None, None
    error.remedy = "Choose a variant in this session again: /variant NAME"


def selected_name(home: Path, cwd: Path, choice: Choice) -> str:
    """Give the name that is selected, also where it cannot be resolved; empty where there is none."""
    try:
        return _named(home, cwd, find_workspace(cwd), choice)[0]
    except (WarmlineError, OSError):
        return ""


def _named(home: Path, cwd: Path, workspace: Workspace | None, choice: Choice) -> tuple[str, Overrides]:
    if choice.variant is not None:
        return choice.variant, Overrides()
    if workspace is not None:
        return workspace.load().selects(chat=True)
    name = default_variant(home)
    if name is None:
        raise ConfigError(
            "no workspace selects a variant here",
            code="config.no_workspace",
            file=str(cwd),
            remedy="Choose a variant in this session, or: warmline config set default-variant NAME",
        )
    return name, Overrides()
