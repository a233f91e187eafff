"""Which documents a person was in: on leaving one, what was looked at there becomes context for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachetools import LRUCache
from warmline.prompts.window import normalise

from ..context.declarations import MOST_LINES, declarations
from ..context.excerpts import excerpt, header
from ..context.ring import Excerpt, Ring
from . import refusals, uris
from .variants import Nowhere

if TYPE_CHECKING:
    from .documents import Snapshot
    from .session import Session

_DOCUMENTS: Final = 256


class Visits:
    """Follows a person from document to document.

    Excerpts are taken when a document is left, not while it is worked in: each one changes the beginning of every
    prompt of its folder, and with it what is warm.
    """

    def __init__(self, session: Session, ring: Ring) -> None:
        self._session = session
        self._ring = ring
        self._line: LRUCache[str, int] = LRUCache(_DOCUMENTS)
        self._here = ""
        self._gone: LRUCache[str, None] = LRUCache(_DOCUMENTS)

    async def at(self, uri: str, line: int) -> None:
        """A person is in a document, at a line."""
        left, self._here = self._here, uri
        for gone in [each for each in self._gone if _covers(each, uri)]:
            del self._gone[gone]
        self._line[uri] = line
        if left and left != uri and (snapshot := self._session.documents.get(left)) is not None:
            await self._keep(snapshot)

    async def opened(self, uri: str) -> None:
        """A document was opened, which a person most likely looks at now."""
        await self.at(uri, self._line.get(uri, 0))

    async def closed(self, snapshot: Snapshot) -> None:
        """A document was closed; `snapshot` is how it was last."""
        if self._here == snapshot.uri:
            self._here = ""
            await self._keep(snapshot)

    def renamed(self, uri: str) -> bool:
        """Forget what was seen of a document or a folder by its old name; False when that is nothing.

        By the new name it may be a secret. If it is none, it becomes context again like any other.
        """
        self._gone[uri] = None
        if _covers(uri, self._here):
            self._here = ""
        return self._ring.forget(uri)

    async def _keep(self, snapshot: Snapshot) -> None:
        suggesting, uri = self._session.suggesting, snapshot.uri
        place = self._session.variants.place(uri)
        if isinstance(place, Nowhere) or place.workspace is None or not snapshot.in_sync:
            return
        settings = suggesting.settings
        if await refusals.in_document(snapshot, place, settings, suggesting.git) is not None:
            self._ring.forget(uri)
            return
        # Git was asked meanwhile.
        if settings != suggesting.settings or any(_covers(each, uri) for each in self._gone):
            return
        path, folder = refusals.path_in(place, uris.to_path(uri)), str(place.workspace.root)
        if path is None or refusals.looks_binary(snapshot):
            return
        text = excerpt(snapshot, self._line.get(uri, 0), settings.context_lines, path)
        self._ring.add(folder, Excerpt(uri, text))
        if settings.context_declarations:
            found = declarations(normalise(snapshot.slice_lines(0, MOST_LINES)), snapshot.language_id)
            self._ring.declare(folder, uri, header(path, snapshot.language_id), found)


def _covers(renamed: str, uri: str) -> bool:
    """Tell whether a document is what was renamed, or lies in it."""
    return uri == renamed or uri.startswith(renamed.rstrip("/") + "/")
