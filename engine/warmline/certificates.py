"""Certificates: what a variant was measured to be, bound to its identity.

A certificate belongs to an exact variant. Whatever of it changes (a byte, a scale, a template, the backend's version)
makes another variant, which has none; nothing is inherited from a base.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from .benchmark.report import Label, Machine
from .digests import DigestCache, bytes_digest, open_regular
from .errors import CertificateError, WarmlineError
from .evaluation.report import Report, SuiteReport
from .filemodel import Digest, FileModel, load_file, parse
from .identity import exact_decimal
from .variant import Claim, Profile, ResolvedVariant

if TYPE_CHECKING:
    from .host.wire import VariantStatus

MAX_BYTES: Final = 8 << 20
_PACKAGES: Final = {"llama": "llama-cpp-python", "openvino": "openvino-genai"}
_ADAPTER: Final = 256 << 20  # bytes: an adapter of at most so many is hashed to be told in a list
Fields = tuple[tuple[str, str], ...]


class Certificate(FileModel):
    """What suites found of one exact variant.

    `identity_fields` are what its identity is made of. `subject` is the same as far as it can be told without loading
    anything, and what else answers depend on (`subject_of`). `seal` is the digest of all the rest.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    variant: Label
    against: Label | None
    identity_fields: Fields
    subject: Fields
    claims: tuple[Claim, ...]
    made_at: Annotated[str, Field(max_length=40)]
    machine: Machine
    suites: tuple[SuiteReport, ...]
    passed: bool
    seal: Digest | None = None

    @model_validator(mode="after")
    def _unchanged(self) -> Self:
        if self.seal is not None and self.seal != self._sealed():
            raise ValueError("the certificate was changed after it was made")
        if self.passed != (bool(self.suites) and all(suite.passed for suite in self.suites)):
            raise ValueError("the certificate does not say what its suites say")
        return self

    @property
    def reasons(self) -> list[str]:
        """Why it failed: each threshold that is not met."""
        return [f"{suite.name}: {each.reason}" for suite in self.suites for each in suite.verdicts if not each.met]

    def to_json(self) -> bytes:
        """Write the file."""
        data = self.model_dump(mode="json", by_alias=True, exclude={"json_schema", "seal"}) | {"seal": self._sealed()}
        return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()

    def _sealed(self) -> str:
        data = self.model_dump(mode="json", by_alias=True, exclude={"json_schema", "seal"})
        return bytes_digest(json.dumps(data, sort_keys=True).encode())


def issue(report: Report, status: VariantStatus, variant: ResolvedVariant) -> Certificate:
    """Make a certificate of what an evaluation found; `status` is the variant as it was evaluated."""
    suites = tuple(suite.model_copy(update={"rows": ()}) for suite in report.suites)
    return Certificate(
        variant=report.variant,
        against=report.against,
        identity_fields=status.identity_fields,
        subject=_subject(variant, status.base.digest, [each.digest for each in status.adapters]),
        claims=variant.profile.claims,
        made_at=report.made_at,
        machine=report.machine,
        suites=suites,
        passed=bool(suites) and all(suite.passed for suite in suites),
    )


def read_certificate(path: Path) -> Certificate:
    """Read a certificate's file; errors as in `filemodel.load_file`."""
    return load_file(path, Certificate, max_bytes=MAX_BYTES)


def parse_certificate(data: bytes, file: str) -> Certificate:
    """Read a certificate's text; errors as in `filemodel.parse`."""
    return parse(data, Certificate, file)


def subject_of(variant: ResolvedVariant, digests: DigestCache) -> Fields:
    """List what a variant is as far as it is told by files and their digests, a name and a value each.

    Digests are of the bytes that are there now: known ones are taken from the cache, which a changed file is not in; an
    adapter is hashed. Of a base that would have to be hashed the value is empty, which no certificate has.
    """
    adapters = [_digest(each.path, each.digest, digests, small=_ADAPTER) for each in variant.adapters]
    return _subject(variant, _digest(variant.base.path, variant.base.digest, digests), adapters)


def _subject(variant: ResolvedVariant, base: str, adapters: Sequence[str]) -> Fields:
    rows = [
        ("backend.name", variant.backend),
        ("backend.package", _package(variant.backend)),
        ("base.digest", base),
        ("adapters", str(len(adapters))),
    ]
    for index, (adapter, digest) in enumerate(zip(variant.adapters, adapters, strict=True)):
        rows += [(f"adapters[{index}].digest", digest), (f"adapters[{index}].scale", exact_decimal(adapter.scale))]
    return (*rows, *profile_fields(variant.profile))


def profile_fields(profile: Profile) -> Fields:
    """List a profile's fields, of which some are no part of an identity and change answers all the same."""
    data = profile.model_dump(mode="json")
    return tuple((f"profile.{name}", json.dumps(value, sort_keys=True)) for name, value in sorted(data.items()))


def _package(backend: str) -> str:
    try:
        return importlib.metadata.version(_PACKAGES[backend])
    except importlib.metadata.PackageNotFoundError:
        return ""


def _digest(path: Path, recorded: str | None, digests: DigestCache, *, small: int = 0) -> str:
    if path.is_dir():
        return recorded or ""  # a folder's digest is its record's; `verified` holds it against the files
    try:
        with open_regular(path) as fd:
            known = digests.known(fd)
            if known is None and path.stat().st_size <= small:
                known = digests.digest_descriptor(fd)
            return known or ""
    except (WarmlineError, OSError):
        return ""


def check_suite(name: str, digest: str, last: Certificate) -> SuiteReport:
    """Return what a certificate says of a suite: ``certificate.suite`` where it is about another, or none."""
    before = next((each for each in last.suites if each.name == name), None)
    if before is None or before.digest != digest:
        what = "is not in the last certificate" if before is None else "has other tasks than in the last certificate"
        raise CertificateError(
            f"the suite `{name}` {what}, so the two cannot be compared",
            code="certificate.suite",
            field=name,
            remedy="Name the suites, the folder, the count and the seed of the last one, or certify without --check",
        )
    return before


def regressions(now: Report, last: Certificate) -> list[str]:
    """Say what is worse than the last certificate says: below its interval, or a threshold that is not met.

    Latency is held to thresholds only: it belongs to a machine. Errors as `check_suite`.
    """
    found = []
    for suite in now.suites:
        before = check_suite(suite.name, suite.digest, last)
        for figure in suite.figures:
            old = before.figure(figure.metric)
            if figure.metric != "latency_ms" and old is not None and figure.variant.value < old.variant.low:
                was = f"it was {old.variant.words()}"
                found.append(f"{suite.name}: {figure.metric} is {figure.variant.value:.3f}, {was}")
        found += [f"{suite.name}: {each.reason}" for each in suite.verdicts if not each.met]
    return found
