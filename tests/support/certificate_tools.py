"""Certificates for tests of what is done with them: they say what they are told to, of no run."""

from __future__ import annotations

from collections.abc import Sequence

from warmline.benchmark.machine import describe
from warmline.benchmark.report import AdapterLabel, Label
from warmline.certificates import Certificate, profile_fields
from warmline.evaluation.report import Figure, Interval, SuiteReport, Verdict
from warmline.evaluation.tasks import Threshold
from warmline.variant import Profile

IDENTITY = "sha256:" + "1" * 64
SUITE = "sha256:" + "2" * 64


def suite_report(value: float = 0.5, *, met: bool = True, name: str = "style", digest: str = SUITE) -> SuiteReport:
    """One figure and one threshold, met or not."""
    threshold = Threshold(metric="edit_similarity", at_least=0.2)
    figure = Figure(metric="edit_similarity", variant=Interval(value=value, low=value - 0.1, high=value + 0.1, n=16))
    verdict = Verdict(threshold=threshold, met=met, reason=f"edit_similarity at least 0.2: it is {value}")
    return SuiteReport(name=name, kind="style", digest=digest, seed=1, tasks=16, figures=(figure,), verdicts=(verdict,))


def label(name: str, identity: str, base: str, adapters: Sequence[tuple[str, str]]) -> Label:
    """The label of a variant of a base's digest and adapters' (digest, scale)."""
    return Label(
        name=name,
        kind="dynamic" if adapters else "base",
        identity=identity,
        base="base",
        base_digest=base,
        merged_from=None,
        adapters=tuple(
            AdapterLabel(name=f"a{number}", digest=digest, scale=scale, effective_scale=scale)
            for number, (digest, scale) in enumerate(adapters)
        ),
        backend="llama.cpp",
        backend_version="1",
        threads=1,
        n_ctx=4096,
    )


def paper(
    base: str,
    adapters: Sequence[tuple[str, str]] = (),
    profile: Profile | None = None,
    *,
    name: str = "acme",
    identity: str = IDENTITY,
    identity_fields: Sequence[tuple[str, str]] = (),
    made_at: str = "2026-01-01T00:00:00+00:00",
    met: bool = True,
) -> Certificate:
    """A certificate of a variant of these parts."""
    rows = [
        ("backend.name", "llama"),
        ("backend.package", "1"),
        ("base.digest", base),
        ("adapters", str(len(adapters))),
    ]
    for number, (digest, scale) in enumerate(adapters):
        rows += [(f"adapters[{number}].digest", digest), (f"adapters[{number}].scale", scale)]
    return Certificate(
        variant=label(name, identity, base, adapters),
        against=None,
        identity_fields=tuple(identity_fields),
        subject=(*rows, *profile_fields(profile or Profile())),
        claims=("completion",),
        made_at=made_at,
        machine=describe(),
        suites=(suite_report(met=met),),
        passed=met,
    )
