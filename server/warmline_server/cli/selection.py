"""Which variant a command works with: the one it was given, else the workspace's, else the user's default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warmline.errors import ConfigError, VariantError
from warmline.registry import Store, Workspace, find_workspace, warmline_home
from warmline.settings import default_variant, settings_file
from warmline.variant import ResolvedVariant

UNSET_DEFAULT: Final = "warmline config unset default-variant, or another: warmline config set default-variant NAME"


@dataclass(frozen=True, slots=True)
class Selection:
    """A variant and the workspace that it was looked up in, if there is one.

    `overridden` are the adapters whose scale is the workspace's file's.
    """

    variant: ResolvedVariant
    workspace: Workspace | None
    overridden: tuple[str, ...] = ()


def select(start: Path, name: str | None = None, *, chat: bool = False) -> Selection:
    """Resolve the variant called `name`, or the one that the workspace at or above `start` selects, or the default.

    With `chat` it is the one that the workspace selects to chat with.

    A variant asked for by name runs as its own file says: the workspace's overrides belong to the workspace's choice.

    Raises
    ------
    ConfigError, VariantError
        As `registry.Store.resolve`; ``config.no_workspace`` when there is neither a name, a workspace nor a default.
    """
    store = Store(warmline_home())
    workspace = find_workspace(start)
    if name is None:
        if workspace is None:
            default = default_variant(store.home)
            if default is not None:
                return Selection(_default(store, default), None)
            raise ConfigError(
                "no workspace selects a variant here",
                code="config.no_workspace",
                file=str(start),
                remedy='Write .warmline/config.json with {"variant": NAME} at the top of the project, use --variant, '
                "or: warmline config set default-variant NAME",
            )
        chosen = workspace.load()
        variant = store.resolve_selection(chosen, workspace, chat=chat)
        return Selection(variant, workspace, tuple(chosen.selects(chat=chat)[1].scales))
    try:
        store.find(name, workspace)
    except VariantError as error:
        # The command line asked, not the workspace file; `warmline variant list` shows both places.
        raise VariantError(error.message, code=error.code, field="--variant", remedy=error.remedy) from None
    return Selection(store.resolve(name, workspace), workspace)


def first_steps(store: Store) -> str:
    """Say what makes the first variant: a base comes before it."""
    add = "warmline variant add NAME --base NAME"
    there = next(store.places.models.names(), None) is not None
    return f"{add} --adapter NAME" if there else f"warmline model add FILE --name NAME; then {add}"


def _default(store: Store, name: str) -> ResolvedVariant:
    try:
        store.find(name)
    except VariantError as error:
        file = str(settings_file(store.home))
        message = f"the default variant is gone: {error.message}"
        raise VariantError(message, code=error.code, file=file, field="default-variant", remedy=UNSET_DEFAULT) from None
    return store.resolve(name)
