"""`warmline certify`: whether a variant is as good as its profile claims, on paper; and whether it still is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, variant_names
from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.certificate_store import Certificates
    from warmline.certificates import Certificate
    from warmline.evaluation.reading import Suite
    from warmline.evaluation.report import Report
    from warmline.variant import Claim, ResolvedVariant


def command(
    variant: Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=variant_names)],
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", metavar="NAME|FILE", help="In place of those that come with Warmline; repeatable."),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="The code that `holes` are cut from.")] = None,
    count: Annotated[int | None, typer.Option(min=1, max=10_000, help="How many tasks of each suite.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="In place of the suites'.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write none: compare with the last one, and fail where it is worse.")
    ] = False,
    last: Annotated[
        Path | None, typer.Option("--last", metavar="FILE", help="With --check: the certificate to compare with.")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the certificate there as well.")
    ] = None,
    run_code: Annotated[
        bool, typer.Option("--run-code", help="Let code that the model wrote run, in a sandbox (humaneval-infill).")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an interrupted run.")] = False,
    as_json: Json = False,
) -> None:
    """Run the suites of what a variant's profile claims, and write a certificate of its exact identity.

    Claims: completion (holes, of --folder), chat (smoke), tools, reasoning. It passes where every threshold of every
    suite is met; else the certificate says what is not, and the exit code is 1. Whatever changes of the variant makes
    it void. With --check nothing is written, and the exit code is 1 where a figure is below the interval that the last
    certificate gives for it, or a threshold is not met.
    """
    import asyncio

    from warmline.certificate_store import Certificates
    from warmline.certificates import issue
    from warmline.registry import warmline_home

    from . import evaluating
    from .eval import BASE, check_code, opponent
    from .selection import select
    from .session import asking_for_approval

    _check_options(check, last, output_file)
    output = Output(as_json)
    home = warmline_home()
    selection = select(Path.cwd(), variant)
    chosen = selection.variant
    certificates = Certificates(home)
    before = _last(certificates, chosen, last) if check else None
    suites = _suites(chosen, suite or [], folder, count, seed)
    if before is not None:
        _check_same(suites, before)
    plan = evaluating.Plan(chosen, opponent(chosen, BASE), suites, run_code, fresh)
    check_code(plan)
    with asking_for_approval(selection.workspace, variant):
        report, status, partials = asyncio.run(evaluating.evaluate(output, home, plan))
    if before is not None:
        passed = _compare(output, report, before)
    else:
        certificate = issue(report, status, chosen)
        path = certificates.put(certificate)
        if output_file is not None:
            output_file.write_bytes(certificate.to_json())
        _print(output, report, certificate, path)
        passed = certificate.passed
    for partial in partials:
        partial.remove()
    if not passed:
        raise typer.Exit(Exit.ERROR)


def _check_options(check: bool, last: Path | None, output_file: Path | None) -> None:
    """Refuse what would be left out in silence, and what could not be written in the end."""
    if last is not None and not check:
        raise typer.BadParameter("it is compared with --check alone", param_hint="--last")
    if output_file is None:
        return
    if check:
        raise typer.BadParameter("with --check no certificate is made", param_hint="--output")
    if output_file.is_dir() or not output_file.absolute().parent.is_dir():
        raise typer.BadParameter(f"no file can be written at {str(output_file)!r}", param_hint="--output")


def _suites(
    variant: ResolvedVariant, names: list[str], folder: Path | None, count: int | None, seed: int | None
) -> tuple[Suite, ...]:
    """Load the suites of all claims: those that are named, and what comes with Warmline for claims without."""
    from warmline.errors import CertificateError
    from warmline.evaluation.reading import load_suite

    claims = variant.profile.claims
    if not claims:
        raise CertificateError(
            f"the profile of `{variant.name}` claims nothing",
            code="certificate.claims",
            file=variant.file,
            field="profile.claims",
            remedy='Say what it is good for: "claims": ["completion"], or chat, tools, reasoning',
        )
    own: dict[Claim, str] = {"completion": "holes", "chat": "smoke", "tools": "tools", "reasoning": "reasoning"}
    found = [load_suite(name, folder=folder, count=count, seed=seed) for name in names]
    spoken_for = {each.claim for each in found}
    found += [
        load_suite(own[claim], folder=folder, count=count, seed=seed) for claim in claims if claim not in spoken_for
    ]
    for each in found:
        if each.claim not in claims:
            raise CertificateError(
                f"the suite `{each.header.name}` speaks for `{each.claim}`, which the profile does not claim",
                code="certificate.suite",
                file=variant.file,
                field="profile.claims",
                remedy=f"Add `{each.claim}` to the claims, or leave the suite out",
            )
        if not each.header.thresholds:
            raise CertificateError(
                f"the suite `{each.header.name}` has no thresholds, so whatever comes of it would pass",
                code="certificate.thresholds",
                file=each.file,
                field="thresholds",
                remedy="Write into its header what is asked for: warmline schema suite",
            )
    return tuple(found)


def _last(certificates: Certificates, variant: ResolvedVariant, file: Path | None) -> Certificate:
    from warmline.certificates import read_certificate
    from warmline.errors import CertificateError

    found = certificates.last(variant.name, variant.backend) if file is None else read_certificate(file)
    if found is None:
        raise CertificateError(
            f"there is no certificate of `{variant.name}` to compare with",
            code="certificate.none",
            field="--check",
            remedy=f"Make one: warmline certify {variant.name}; or name its file: --last FILE",
        )
    return found


def _check_same(suites: tuple[Suite, ...], before: Certificate) -> None:
    """Refuse before anything runs what could not be compared: `certificates.regressions` would in the end."""
    from warmline.certificates import check_suite

    for suite in suites:
        check_suite(suite.header.name, suite.digest, before)


def _compare(output: Output, report: Report, before: Certificate) -> bool:
    from warmline.certificates import regressions

    from . import evaluating

    found = regressions(report, before)
    if output.as_json:
        data: dict[str, Any] = {"passed": not found, "reasons": found, "report": report.model_dump(mode="json")}
        output.json(data | {"last": {"identity": before.variant.identity, "made_at": before.made_at}})
        return not found
    evaluating.show(output, report)
    for reason in found:
        output.text(f"worse: {reason}")
    if not found:
        output.note(cell(f"As good as the certificate of {before.made_at} ({before.variant.identity[7:19]})."))
    return not found


def _print(output: Output, report: Report, certificate: Certificate, path: Path) -> None:
    from . import evaluating

    if output.as_json:
        output.json(certificate.model_dump(mode="json", by_alias=True))
        return
    evaluating.show(output, report)
    name, identity = certificate.variant.name, certificate.variant.identity[7:19]
    verdict = "is certified" if certificate.passed else "FAILED"
    output.text(f"{name} {identity} {verdict}: {', '.join(certificate.claims)}")
    output.note(cell(f"Wrote {path}", "dim"))
