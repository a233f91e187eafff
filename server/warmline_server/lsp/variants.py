"""Which variant a document works with: its own folder's workspace file, looked for upward, else the user's own default.

Nothing is kept between two questions. Finding and reading three small files costs less than a millisecond, and a copy
kept by mtime and size can be wrong: two writes within one tick of the file system's clock look alike, and a link in a
path may lead elsewhere without any of the files it joins being touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warmline.errors import WarmlineError
from warmline.registry import WORKSPACE_FOLDER, Store, Workspace, find_workspace
from warmline.settings import default_variant
from warmline.variant import ResolvedVariant

from ..paths import unreadable
from . import uris

NO_WORKSPACE: Final = "no-workspace"
#: There is a workspace, of which nothing is read: the person has not said in the editor that they trust it.
RESTRICTED: Final = "restricted"
DEFAULT_VARIANT: Final = "default"


@dataclass(frozen=True, slots=True)
class Place:
    """What selects a variant: a workspace file, or, without one, the user's own default variant."""

    workspace: Workspace | None

    @property
    def name(self) -> str:
        """Path of the file that selects, as the key under which its state is kept; `default` without one."""
        return str(self.workspace.file) if self.workspace else DEFAULT_VARIANT


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No variant at all, and why: ``no-workspace``, ``restricted`` or ``scheme:<scheme>``."""

    reason: str


class Variants:
    """Finds places and resolves them.

    Parameters
    ----------
    home
        The user's store.
    roots
        Workspace folders, for documents without a file.
    restricted
        Whether nothing that a workspace says counts, so that only the user's own default variant is left.
    """

    def __init__(self, home: Path, roots: tuple[Path, ...] = (), *, restricted: bool = False) -> None:
        self.store = Store(home)
        self.roots = roots
        self.restricted = restricted

    def workspace_of(self, folder: Path) -> Workspace | None:
        """Find the workspace that a folder lies in; None without one, and for a session that is restricted."""
        return None if self.restricted else find_workspace(folder)

    def place(self, uri: str) -> Place | Nowhere:
        """Find what selects a document's variant."""
        kind = uris.scheme(uri)
        if kind == "untitled":
            folder = self.roots[0] if self.roots else None
        elif (path := uris.to_path(uri)) is not None:
            folder = path.parent
        else:
            return Nowhere(f"scheme:{kind}")
        workspace = self.workspace_of(folder) if folder else None
        if workspace is None and not self._has_default():
            hidden = self.restricted and folder is not None and find_workspace(folder) is not None
            return Nowhere(RESTRICTED if hidden else NO_WORKSPACE)
        return Place(workspace)

    def resolve(self, place: Place, *, chat: bool = False) -> ResolvedVariant:
        """Resolve the selected variant, that for completion or that for chat.

        Raises
        ------
        WarmlineError
            As `Store.resolve_workspace`; ``config.unreadable`` where a folder on the way is not ours to read.
        """
        with self._typed_errors():
            if place.workspace is None:
                return self.store.resolve(default_variant(self.store.home) or DEFAULT_VARIANT)
            return self.store.resolve_workspace(place.workspace, chat=chat)

    def resolve_named(self, name: str, workspace: Workspace | None) -> ResolvedVariant:
        """Resolve a variant by its name; errors as in `resolve`."""
        with self._typed_errors():
            return self.store.resolve(name, workspace)

    def exists(self, place: Place) -> bool:
        """Tell whether a place still selects: its workspace file, or the user's own default, may be gone."""
        return self._has_default() if place.workspace is None else os.path.lexists(place.workspace.file)

    def selected_name(self, place: Place) -> str:
        """Give the name that is selected, also when it can't be resolved; empty when it can't even be read."""
        try:
            if place.workspace is None:
                return default_variant(self.store.home) or DEFAULT_VARIANT
            return place.workspace.load().variant
        except (WarmlineError, OSError):
            return ""

    def chat_name(self, place: Place) -> str:
        """Give the name of the variant to chat with, where it is another than the selected one; else empty."""
        if place.workspace is None:
            return ""
        try:
            selection = place.workspace.load()
        except (WarmlineError, OSError):
            return ""
        name = selection.selects(chat=True)[0]
        return "" if name == selection.variant else name

    def described_by(self, path: Path) -> Place | None:
        """Tell what a workspace file at `path` selects; None when it is none."""
        if self.restricted or path.name != "config.json" or path.parent.name != WORKSPACE_FOLDER:
            return None
        return Place(Workspace(path.parent.parent, path))

    def variant_file(self, path: Path) -> tuple[str, Workspace | None] | None:
        """Tell by which name, and in which workspace, a variant file at `path` is found; None when it is none."""
        if path.suffix != ".json":
            return None
        folder = path.parent
        if folder.name == "variants" and folder.parent.name == WORKSPACE_FOLDER and not self.restricted:
            root = folder.parent.parent
            return path.stem, Workspace(root, folder.parent / "config.json")
        if folder.parent == self.store.home / "variants":
            return f"{folder.name}/{path.stem}", None
        return None

    def _has_default(self) -> bool:
        try:
            return default_variant(self.store.home) is not None
        except (WarmlineError, OSError):
            return True  # settings that cannot be read are what resolving reports

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unreadable(error, self.store.home) from None
