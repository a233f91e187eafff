"""Each variant of the store, as far as headers tell: nothing is hashed but what has no record, nothing is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from warmline.artifacts.gguf import GGUFHeader
from warmline.artifacts.lora import AdapterSummary, check_against_base, read_adapter
from warmline.backends.openvino_native import INSTALL, installed
from warmline.digests import DigestCache, open_regular
from warmline.errors import WarmlineError
from warmline.filemodel import Trust
from warmline.identity import exact_decimal
from warmline.registry import Store
from warmline.validation import check_declared_base, check_digest, read_base
from warmline.variant import ResolvedAdapter, ResolvedVariant

from ..selection import first_steps
from . import Check, fail, ok, warn
from .openvino import check_variant as check_openvino

# Bytes: a file without a record is hashed up to this, so that ten of them do not take the five seconds.
_HASHED: Final = 64 << 20


class VariantChecks:
    """Checks variants one after another; what they share is read once.

    Parameters
    ----------
    deadline
        `time.monotonic` at which it stops, and says what was not looked at; None with `deep`.
    deep
        Hash every file, from the cache where it is provably unchanged.
    """

    def __init__(self, store: Store, deadline: float | None, *, deep: bool) -> None:
        self._store = store
        self._deadline = deadline
        self._deep = deep
        self._digests = DigestCache(store.home / "cache" / "digests.json")
        self._bases: dict[Path, GGUFHeader] = {}
        self._adapters: dict[Path, AdapterSummary] = {}
        self._fitting: set[tuple[Path, Path]] = set()
        self._hashed: dict[Path, str] = {}

    def run(self) -> Iterator[Check]:
        """Yield one row for each variant."""
        variants = self._store.variants()
        if not variants:
            yield warn("variants", "there are none yet", first_steps(self._store))
        for number, found in enumerate(variants):
            if self._deadline is not None and time.monotonic() > self._deadline:
                left = len(variants) - number
                yield warn("variants", f"{left} were not looked at, to end in time", "warmline doctor --deep")
                return
            exact = f"{found.backend}/{found.name}"
            yield self.one(f"variant {exact}", partial(self._store.resolve, exact))

    def one(self, name: str, resolve: Callable[[], ResolvedVariant]) -> Check:
        """Return the row called `name` of a variant."""
        try:
            resolved = resolve()
            if resolved.backend == "openvino" and not installed():
                return warn(name, "OpenVINO GenAI is not installed", f"Add it: {INSTALL}")
            loose = self._check(resolved) if resolved.backend == "llama" else check_openvino(resolved)
        except WarmlineError as error:
            file = f"{error.file}: " if error.file and error.file not in error.message else ""
            return fail(name, f"{file}{error.message}", error.remedy, code=error.code, file=error.file)
        except OSError as error:
            return fail(name, f"{error.filename}: {error.strerror}", "Check the disk and the file's permissions")
        parts = " + ".join(f"{each.name}@{exact_decimal(each.scale)}" for each in resolved.adapters)
        made = f"{resolved.base.name} -> {parts}" if parts else resolved.base.name
        if resolved.base.merged_from:
            made = f"{made} (merged: {resolved.base.merged_from})"
        if loose:
            message = f"{made}; unverified: {', '.join(loose)}"
            remedy = "Only shapes tie it to the base; get it with a record that names the base's digest"
            return warn(name, message, remedy, unverified=loose)
        return ok(name, made)

    def _check(self, variant: ResolvedVariant) -> list[str]:
        """Check a variant's files; return the adapters that nothing ties to this very base."""
        base = variant.base
        digest = self._digest(base.path, base.digest)
        header = self._bases.get(base.path)
        if header is None:
            with open_regular(base.path) as fd:
                header = self._bases[base.path] = read_base(fd, label=str(base.path))
        loose = []
        for spec in variant.adapters:
            self._check_adapter(spec, header, base.path)
            if digest is not None:
                strict = spec.trust is Trust.CURATED
                check_declared_base(spec.name, spec.declared_base, digest, str(spec.path), strict=strict)
            if digest is None or spec.declared_base.digest != digest:
                loose.append(spec.name)
        return loose

    def _check_adapter(self, spec: ResolvedAdapter, base: GGUFHeader, base_path: Path) -> None:
        self._digest(spec.path, spec.digest)
        summary = self._adapters.get(spec.path)
        if summary is None:
            with open_regular(spec.path) as fd:
                summary = self._adapters[spec.path] = read_adapter(fd, label=str(spec.path))
        if (spec.path, base_path) not in self._fitting:
            check_against_base(summary, base)
            self._fitting.add((spec.path, base_path))

    def _digest(self, path: Path, stated: str | None) -> str | None:
        """Return a file's digest: hashed where that was asked for or is cheap, else the one that its record states."""
        known = self._hashed.get(path)
        if known is None:
            with open_regular(path) as fd:
                small = stated is None and path.stat().st_size <= _HASHED
                known = self._digests.digest_descriptor(fd) if self._deep or small else self._digests.known(fd)
            if known is None:
                return stated
            self._hashed[path] = known
        check_digest(known, stated, str(path))
        return known
