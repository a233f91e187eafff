"""A store's certificates, and how a variant stands by them: certified, failed, void or without one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from .certificates import MAX_BYTES, Certificate, Fields, profile_fields, read_certificate, subject_of
from .digests import DigestCache, open_regular, write_atomically
from .errors import WarmlineError
from .identity import differences
from .store import changes
from .variant import Profile, ResolvedVariant

if TYPE_CHECKING:
    from .host.wire import VariantStatus

FOLDER: Final = "certificates"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a variant stands: `certified`, `failed` (a certificate says that it is not good enough), `void` or `none`."""

    state: Literal["certified", "failed", "void", "none"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


NONE: Final = Standing("none")
UNREADABLE: Final = Standing("void", "its certificate cannot be read")


class Certificates:
    """The certificates of a store: one an identity, ``certificates/<identity>.json``."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._known: dict[Path, tuple[tuple[int, int, int], Certificate | WarmlineError]] = {}

    def put(self, certificate: Certificate) -> Path:
        """Keep a certificate, in place of an older one of the same identity; raises `StoreError`."""
        path = self.path(certificate.variant.identity)
        with changes.typed_errors(self._folder.parent):
            write_atomically(path, certificate.to_json())
        return path

    def path(self, identity: str) -> Path:
        """Return where the certificate of an identity is, if there is one."""
        return self._folder / f"{identity.removeprefix('sha256:')}.json"

    def of(self, identity: str) -> Certificate | None:
        """Return the certificate of an identity, or None; raises `ConfigError` for one that cannot be read."""
        found = self._read(self.path(identity))
        if isinstance(found, WarmlineError):
            raise found
        return found if found is None or found.variant.identity == identity else None

    def last(self, name: str, backend: str) -> Certificate | None:
        """Return the newest certificate of whatever was called by a name, or None."""
        return _newest(one for one in self._named(name) if _field(one, "backend.name") == backend)

    def standing(self, status: VariantStatus, profile: Profile | None = None) -> Standing:
        """Tell how a variant stands that was verified just now.

        Parameters
        ----------
        profile
            Its profile where that is at hand: what of it is no identity (how tokens are picked) counts as well.
        """
        path = self.path(status.identity)
        found = self._read(path)
        if isinstance(found, WarmlineError):
            return UNREADABLE
        if found is not None and found.variant.identity == status.identity:
            changed = _changed(found.subject, profile_fields(profile), only="profile.") if profile else ""
            return Standing("void", changed) if changed else _said(found)
        last = _newest(one for one in self._named(status.variant) if one.variant.backend == status.backend.name)
        return NONE if last is None else Standing("void", _changed(last.identity_fields, status.identity_fields))

    def listed(self, variant: ResolvedVariant, digests: DigestCache) -> Standing:
        """Tell how a variant stands, from what its files say, with nothing loaded."""
        paths = self._paths()
        if not paths:
            return NONE
        subject = subject_of(variant, digests)
        found = _newest(one for one in self._all() if one.subject == subject)
        if found is not None:
            return _said(found)
        if any(isinstance(self._read(path), WarmlineError) and _claims(path, subject) for path in paths):
            return UNREADABLE
        last = self.last(variant.name, variant.backend)
        return NONE if last is None else Standing("void", _changed(last.subject, subject))

    def _named(self, name: str) -> Iterator[Certificate]:
        return (one for one in self._all() if one.variant.name == name)

    def _all(self) -> list[Certificate]:
        """Return those that are where `of` finds them."""
        found = [(path, self._read(path)) for path in self._paths()]
        return [one for path, one in found if isinstance(one, Certificate) and path == self.path(one.variant.identity)]

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _read(self, path: Path) -> Certificate | WarmlineError | None:
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            try:
                known = (stamp, read_certificate(path))
            except WarmlineError as error:
                known = (stamp, error)
            self._known[path] = known
        return known[1]


def _claims(path: Path, subject: Fields) -> bool:
    """Tell whether one that is not believed says that it is about this: it may not look as if there were none."""
    try:
        with open_regular(path) as fd:
            data = json.loads(os.pread(fd, MAX_BYTES, 0))
    except (OSError, ValueError, RecursionError, WarmlineError):
        return False
    return isinstance(data, dict) and data.get("subject") == [list(each) for each in subject]


def _newest(certificates: Iterable[Certificate]) -> Certificate | None:
    return max(certificates, key=lambda one: one.made_at, default=None)


def _said(certificate: Certificate) -> Standing:
    if certificate.passed:
        return Standing("certified")
    more = len(certificate.reasons) - 1
    first = certificate.reasons[0] if certificate.reasons else "no suite was run"
    return Standing("failed", first + (f" (and {more} more)" if more > 0 else ""))


def _field(certificate: Certificate, name: str) -> str:
    return dict(certificate.subject).get(name, "")


_WORDS: Final = (
    (r"backend\..*", "backend"),
    (r"base\..*", "base"),
    (r"adapters", "set of adapters"),
    (r"adapters\[\d+\]\.digest", "adapter"),
    (r"adapters\[\d+\]\..*scale", "scale"),
    (r"template|profile\.chat_template", "template"),
    (r"fim|profile\.fim", "FIM format"),
    (r"context\..*|profile\.(n_ctx|type_.)", "context"),
    (r"profile\.(.*)", r"\1"),
)


def _changed(then: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]], *, only: str = "") -> str:
    """Say in words what differs: ``adapter and scale changed``; empty where nothing does."""
    found = [each.field for each in differences(_of(then, only), _of(now, only))]
    if "adapters" in found:  # what follows it is about other adapters then
        found = [each for each in found if not each.startswith("adapters[")]
    words = dict.fromkeys(_word(each) for each in found)
    return f"{' and '.join(words)} changed" if words else ""


def _of(fields: Iterable[tuple[str, str]], only: str) -> list[tuple[str, str]]:
    return [each for each in fields if each[0].startswith(only)]


def _word(field: str) -> str:
    for pattern, word in _WORDS:
        if match := re.fullmatch(pattern, field):
            return match.expand(word).replace("_", " ")
    return field
