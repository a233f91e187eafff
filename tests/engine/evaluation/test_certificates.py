"""Certificates: bound to an identity, void with whatever changes of it, and never believed when they were edited."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from certificate_tools import IDENTITY, SUITE, label, paper, suite_report
from warmline.benchmark.machine import describe
from warmline.certificate_store import Certificates
from warmline.certificates import Certificate, read_certificate, regressions, subject_of
from warmline.digests import DigestCache
from warmline.errors import CertificateError, ConfigError
from warmline.evaluation.report import Report, SuiteReport
from warmline.host.wire import BackendStatus, BaseStatus, ContextStatus, VariantStatus
from warmline.identity import AdapterIdentity, ContextIdentity, Identity
from warmline.schemas import json_schema
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant, Sampling

ONE = Identity(
    backend="llama.cpp",
    backend_version="1",
    base="sha256:" + "b" * 64,
    adapters=(AdapterIdentity("sha256:" + "c" * 64, "1", "2"),),
    template="sha256:" + "d" * 64,
    bos="bos:1",
    fim="fim/1 {}",
    context=ContextIdentity(n_ctx=4096),
)


def status_of(identity: Identity, name: str = "acme") -> VariantStatus:
    return VariantStatus(
        variant=name,
        identity=identity.digest,
        base=BaseStatus(name="base", digest=identity.base),
        adapters=(),
        backend=BackendStatus(name=identity.backend, version=identity.backend_version),
        context=ContextStatus(n_ctx=4096, clamped=False),
        fim="",
        template="",
        bos="",
        identity_fields=tuple(identity.fields()),
    )


def certificate_of(identity: Identity, **how: Any) -> Certificate:
    adapters = [(each.digest, each.scale) for each in identity.adapters]
    return paper(identity.base, adapters, identity=identity.digest, identity_fields=identity.fields(), **how)


def other(**change: Any) -> Identity:
    return replace(ONE, **change)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_it_is_kept_under_its_identity(certificates: Certificates) -> None:
    assert certificates.of(ONE.digest) is None
    assert str(certificates.standing(status_of(ONE))) == "none"
    path = certificates.put(certificate_of(ONE))
    assert path.stat().st_mode & 0o777 == 0o600
    found = certificates.of(ONE.digest)
    assert found is not None
    assert found.model_copy(update={"seal": None}) == certificate_of(ONE).model_copy(
        update={"machine": found.machine, "seal": None}
    )
    jsonschema.validate(json.loads(path.read_text()), json_schema("certificate"))
    assert str(certificates.standing(status_of(ONE))) == "certified"
    assert str(certificates.standing(status_of(ONE, "renamed"))) == "certified"  # a name is no identity
    certificates.put(certificate_of(ONE, met=False))
    assert str(certificates.standing(status_of(ONE))) == "failed: style: edit_similarity at least 0.2: it is 0.5"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"adapters": (AdapterIdentity("sha256:" + "e" * 64, "1", "2"),)}, "void: adapter changed"),
        ({"adapters": (AdapterIdentity("sha256:" + "c" * 64, "0.5", "1"),)}, "void: scale changed"),
        ({"adapters": ()}, "void: set of adapters changed"),
        ({"template": "sha256:" + "e" * 64}, "void: template changed"),
        ({"base": "sha256:" + "e" * 64}, "void: base changed"),
        ({"backend_version": "2"}, "void: backend changed"),
        ({"fim": "fim/1 {1}"}, "void: FIM format changed"),
        ({"context": ContextIdentity(n_ctx=2048)}, "void: context changed"),
        ({"bos": "none"}, "void: bos changed"),
        ({"reasoning": "[]"}, "void: reasoning changed"),
        (
            {"template": "sha256:" + "e" * 64, "adapters": (AdapterIdentity("sha256:" + "e" * 64, "1", "2"),)},
            "void: adapter and template changed",
        ),
    ],
)
def test_whatever_changes_makes_it_void(certificates: Certificates, change: dict[str, Any], said: str) -> None:
    certificates.put(certificate_of(ONE))
    assert str(certificates.standing(status_of(other(**change)))) == said
    assert str(certificates.standing(status_of(other(**change), "unheard-of"))) == "none"


def test_nothing_is_inherited_from_the_base(certificates: Certificates) -> None:
    certificates.put(certificate_of(other(adapters=()), name="base"))
    assert str(certificates.standing(status_of(ONE))) == "none"


def test_how_tokens_are_picked_counts_where_it_is_known(certificates: Certificates) -> None:
    """It is no part of an identity, and answers depend on it all the same."""
    certificates.put(certificate_of(ONE))
    hot = Profile(sampling=Sampling(temperature=1.5))
    assert str(certificates.standing(status_of(ONE), Profile())) == "certified"
    assert str(certificates.standing(status_of(ONE), hot)) == "void: sampling changed"


def test_what_was_edited_is_not_believed(certificates: Certificates) -> None:
    path = certificates.put(certificate_of(ONE, met=False))
    data = json.loads(path.read_text())
    data["passed"] = True
    data["suites"][0]["verdicts"][0]["met"] = True
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="changed after it was made"):
        certificates.of(ONE.digest)
    assert str(certificates.standing(status_of(ONE))) == "void: its certificate cannot be read"


def test_one_of_another_identity_under_this_ones_name_is_none(certificates: Certificates) -> None:
    path = certificates.put(certificate_of(other(bos="none"), name="x"))
    path.rename(certificates.path(ONE.digest))
    assert certificates.of(ONE.digest) is None
    assert str(certificates.standing(status_of(ONE))) == "none"


def test_a_pass_without_a_suite_is_none() -> None:
    with pytest.raises(ValueError, match="does not say what its suites say"):
        Certificate.model_validate(paper("sha256:" + "b" * 64).model_dump(by_alias=True) | {"suites": []})


@pytest.fixture
def variant(tmp_path: Path) -> ResolvedVariant:
    base, adapter = tmp_path / "base.gguf", tmp_path / "adapter.gguf"
    for path in (base, adapter):
        path.write_bytes(path.name.encode() * 100)
        old = path.stat().st_mtime - 100
        os.utime(path, (old, old))
    return ResolvedVariant(
        name="acme",
        backend="llama",
        base=ResolvedBase(name="base", path=base),
        adapters=(ResolvedAdapter(name="style", path=adapter, scale=Decimal(1)),),
        profile=Profile(claims=("completion",)),
        file="acme.json",
    )


def sealed(variant: ResolvedVariant, digests: DigestCache) -> Certificate:
    for path in (variant.base.path, *(each.path for each in variant.adapters)):
        digests._entries[_key(path)] = digests.digest(
            path
        )  # as if it had been hashed more than a moment after it was written
    return certificate_of(ONE).model_copy(update={"subject": subject_of(variant, digests), "seal": None})


def _key(path: Path) -> tuple[int, int, int, int, int]:
    status = path.stat()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def test_a_list_tells_it_from_the_files(certificates: Certificates, variant: ResolvedVariant) -> None:
    digests = DigestCache()
    assert str(certificates.listed(variant, digests)) == "none"
    certificates.put(sealed(variant, digests))
    assert str(certificates.listed(variant, digests)) == "certified"

    def said(**change: Any) -> str:
        return str(certificates.listed(variant.model_copy(update=change), digests))

    half = variant.adapters[0].model_copy(update={"scale": Decimal("0.5")})
    assert said(adapters=(half,)) == "void: scale changed"
    assert said(adapters=()) == "void: set of adapters changed"
    for change, word in (
        ({"chat_template": "{{ x }}"}, "template"),
        ({"n_ctx": 512}, "context"),
        ({"max_tokens": 5}, "max tokens"),
        ({"claims": ("chat",)}, "claims"),
    ):
        assert said(profile=variant.profile.model_copy(update=change)) == f"void: {word} changed"
    assert said(name="else") == "certified"


def test_a_list_does_not_take_an_edited_one_for_none(certificates: Certificates, variant: ResolvedVariant) -> None:
    digests = DigestCache()
    path = certificates.put(sealed(variant, digests))
    data = json.loads(path.read_text())
    data["made_at"] = "2030-01-01T00:00:00+00:00"
    path.write_text(json.dumps(data))
    half = variant.adapters[0].model_copy(update={"scale": Decimal("0.5")})
    assert str(certificates.listed(variant, digests)) == "void: its certificate cannot be read"
    assert str(certificates.listed(variant.model_copy(update={"adapters": (half,)}), digests)) == "none"
    for damage in ("{", "[" * 100_000, "[]"):
        path.write_text(damage)
        assert str(certificates.listed(variant, digests)) == "none"


def test_a_list_reads_certificates_where_they_belong(certificates: Certificates, variant: ResolvedVariant) -> None:
    """A copy under another name is none for `of` either; of two of one subject the newer counts."""
    digests = DigestCache()
    good = sealed(variant, digests)
    path = certificates.put(good)
    path.rename(certificates.path(other(bos="none").digest))
    assert str(certificates.listed(variant, digests)) == "none"
    certificates.put(good)
    assert str(certificates.listed(variant, digests)) == "certified"
    later = certificate_of(other(bos="none"), met=False)
    certificates.put(later.model_copy(update={"subject": good.subject, "made_at": "2999-01-01", "seal": None}))
    assert str(certificates.listed(variant, digests)).startswith("failed")
    certificates.put(good.model_copy(update={"made_at": "2999-02-02"}))
    assert str(certificates.listed(variant, digests)) == "certified"


def test_a_list_notices_a_changed_byte(certificates: Certificates, variant: ResolvedVariant) -> None:
    """Of the same size, and with its old time put back."""
    digests = DigestCache()
    certificates.put(sealed(variant, digests))
    for path, word in ((variant.adapters[0].path, "adapter"), (variant.base.path, "base")):
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(b"X" + before[1:])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert str(certificates.listed(variant, digests)) == f"void: {word} changed"
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        digests._entries[_key(path)] = digests.digest(path)


def report(*suites: SuiteReport) -> Report:
    mine = label("acme", IDENTITY, "sha256:" + "b" * 64, [])
    return Report(variant=mine, against=None, made_at="2026-01-02T00:00:00+00:00", machine=describe(), suites=suites)


@pytest.mark.parametrize(
    ("value", "met", "worse"), [(0.5, True, 0), (0.41, True, 0), (0.39, True, 1), (0.5, False, 1), (0.1, False, 2)]
)
def test_a_regression_is_below_the_interval_or_the_threshold(value: float, met: bool, worse: int) -> None:
    found = regressions(report(suite_report(value, met=met)), certificate_of(ONE))
    assert len(found) == worse
    assert all("style: edit_similarity" in each for each in found)


@pytest.mark.parametrize("suite", [suite_report(name="other"), suite_report(digest=SUITE[:-1] + "3")])
def test_other_tasks_are_not_compared(suite: SuiteReport) -> None:
    with pytest.raises(CertificateError) as caught:
        regressions(report(suite), certificate_of(ONE))
    assert caught.value.code == "certificate.suite"


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"schema": 2}))
    with pytest.raises(ConfigError):
        read_certificate(tmp_path / "c.json")
