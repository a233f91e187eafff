"""A variant with every file hashed and checked, and the identity that follows: what may be loaded, and as what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from cachetools import LRUCache

from .artifacts.gguf import GGUFHeader, read_header
from .artifacts.lora import AdapterSummary, read_adapter
from .backends.base import AdapterOnDisk, Backend, BaseFacts, ContextConfig
from .capacity import Capacity, default_budget, measure
from .digests import DigestCache, bytes_digest, open_regular, short
from .errors import BackendError, PromptError, TrustError, VariantError, WarmlineError
from .filemodel import Trust
from .host.wire import AdapterStatus, BackendStatus, BaseStatus, ContextStatus, VariantStatus
from .identity import AdapterIdentity, Identity, exact_decimal
from .prompts.chat import ChatTemplate, choose_template
from .prompts.fim import FimFormat, choose_fim
from .validation import (
    CheckedAdapter,
    check_declared_base,
    check_digest,
    check_gguf_adapter,
    effective_scale,
    read_base,
)
from .variant import ResolvedAdapter, ResolvedBase, ResolvedVariant

_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class VerifiedAdapter:
    """An adapter whose bytes are known and fit the base. `effective_scale` = scale * alpha / rank, exactly."""

    spec: ResolvedAdapter
    summary: AdapterSummary
    digest: str
    effective_scale: Fraction
    declared_base_matches: bool
    zero_pairs: tuple[str, ...] = ()

    @property
    def on_disk(self) -> AdapterOnDisk:
        """What the backend loads; the native library itself multiplies by alpha / rank."""
        return AdapterOnDisk(self.spec.name, self.spec.path, self.digest, float(self.spec.scale))


@dataclass(frozen=True, slots=True)
class Verified:
    """An exact variant, ready to be loaded."""

    variant: ResolvedVariant
    identity: Identity
    adapters: tuple[VerifiedAdapter, ...]
    facts: BaseFacts
    fim: FimFormat
    template_source: str
    bos: int | None
    context: ContextConfig
    clamped: bool
    capacity: Capacity | None = None

    def status(self, effects: dict[str, float] | None = None) -> VariantStatus:
        """Describe the variant for people; `effects` maps adapter digests to probe results."""
        effects = effects or {}
        identity = self.identity
        return VariantStatus(
            variant=self.variant.name,
            identity=identity.digest,
            base=BaseStatus(
                name=self.variant.base.name,
                digest=identity.base,
                source=self.variant.base.source,
                architecture=self.facts.architecture,
                trust=self.variant.base.trust.value,
                merged_from=self.variant.base.merged_from,
            ),
            adapters=tuple(
                AdapterStatus(
                    name=adapter.spec.name,
                    digest=adapter.digest,
                    scale=known.scale,
                    effective_scale=known.effective_scale,
                    trust=adapter.spec.trust.value,
                    verified=adapter.declared_base_matches,
                    source=adapter.spec.source,
                    declared_base=adapter.spec.declared_base.name or "",
                    rank=adapter.summary.rank,
                    alpha=adapter.summary.alpha,
                    effect=effects.get(adapter.digest),
                    zero_pairs=len(adapter.zero_pairs),
                )
                for adapter, known in zip(self.adapters, identity.adapters, strict=True)
            ),
            backend=BackendStatus(name=identity.backend, version=identity.backend_version),
            context=ContextStatus(n_ctx=self.context.n_ctx, clamped=self.clamped),
            fim=self.fim.describe(),
            template=f"{self.template_source} {short(identity.template)}",
            bos=identity.bos,
            identity_fields=tuple(identity.fields()),
            capacity=self.capacity,
        )


class Verifier:
    """Verifies variants; cheap when nothing changed (one open and one stat a file).

    Parameters
    ----------
    backend
        The library that will run them: its version and its reading of the vocabulary are identity.
    digests
        Content digests.
    approved
        Tells whether the user approved a digest; asked for artifacts that a workspace brings.
    """

    def __init__(self, backend: Backend, digests: DigestCache, approved: Callable[[str], bool]) -> None:
        self._backend = backend
        self._digests = digests
        self._approved = approved
        self._headers: LRUCache[str, GGUFHeader] = LRUCache(_REMEMBERED)
        self._capacities: LRUCache[tuple[str, int, int, str, str], Capacity] = LRUCache(_REMEMBERED)
        self._templates: LRUCache[str, bool] = LRUCache(_REMEMBERED)
        self._adapters: LRUCache[tuple[str, str], CheckedAdapter] = LRUCache(_REMEMBERED)
        self._verified: LRUCache[tuple[ResolvedVariant, tuple[str, ...]], Verified] = LRUCache(_REMEMBERED)

    def verify(self, variant: ResolvedVariant) -> Verified:
        """Hash and check everything that the variant names; the same variant over the same bytes is checked once.

        Raises
        ------
        WarmlineError
            Typed, with `file` the variant's file and `field` the place in it that names what is at fault.
        """
        digests = self._digests_now(variant)
        known = self._verified.get((variant, digests)) if digests is not None else None
        if known is None:
            known = self._verify(variant)
            found = (known.identity.base, *(adapter.digest for adapter in known.adapters))
            self._verified[variant, found] = known
        return known

    def _digests_now(self, variant: ResolvedVariant) -> tuple[str, ...] | None:
        """Return the digests of the approved files as they are now; None when it takes more than a look at them."""
        found = []
        try:
            for artifact in _artifacts(variant):
                with open_regular(artifact.path) as fd:
                    digest = self._digests.known(fd)
                if digest is None or (artifact.workspace and not self._approved(digest)):
                    return None
                found.append(digest)
        except (WarmlineError, OSError):
            return None  # `_verify` says what is wrong
        return tuple(found)

    def _verify(self, variant: ResolvedVariant) -> Verified:
        if variant.backend != "llama":
            raise BackendError(
                f"the backend `{variant.backend}` is not available",
                code="backend.unavailable",
                file=variant.file,
                field="backend",
                remedy="Use backend `llama`",
            )
        with _blamed(variant, "base"):
            base_digest = self._base(variant.base)
        adapters = []
        for index, spec in enumerate(variant.adapters):
            with _blamed(variant, f"adapters[{index}]"):
                adapters.append(self._adapter(spec, base_digest))
        _check_unlike(variant, adapters)
        with _blamed(variant, "base"):
            facts = self._backend.facts(variant.base.path, base_digest)
        profile = variant.profile
        with _blamed(variant, "profile"):
            fim = choose_fim(profile.fim, facts.fim_tokens, facts.lookup, facts.end_of_generation)
            template, source = choose_template(profile.chat_template, facts.chat_template)
            if source == "profile":
                self._check_template(template)
            bos = _bos(variant, facts)
        n_ctx = min(profile.n_ctx, facts.n_ctx_train)
        context = ContextConfig(n_ctx=n_ctx, type_k=profile.type_k, type_v=profile.type_v)
        identity = Identity(
            backend=self._backend.name,
            backend_version=self._backend.version,
            base=base_digest,
            adapters=tuple(
                AdapterIdentity(
                    adapter.digest, exact_decimal(adapter.spec.scale), exact_decimal(adapter.effective_scale)
                )
                for adapter in adapters
            ),
            template=bytes_digest(template.encode("utf-8", "surrogatepass")),
            bos="none" if bos is None else f"bos:{bos}",
            fim=fim.canonical(),
            context=context.identity,
        )
        capacity = self._capacity(base_digest, adapters, profile.n_ctx, facts.n_ctx_train, context)
        clamped = n_ctx < profile.n_ctx
        return Verified(variant, identity, tuple(adapters), facts, fim, source, bos, context, clamped, capacity)

    def hash_files(self, variant: ResolvedVariant) -> None:
        """Hash what is not in the cache of what a variant names; errors are left to `verify`."""
        for artifact in _artifacts(variant):
            with suppress(WarmlineError, OSError), open_regular(artifact.path) as fd:
                if not self._digests.knows(fd):
                    read_header(fd)
                    self._digests.digest_descriptor(fd)

    def is_quick(self, variant: ResolvedVariant) -> bool:
        """Tell whether `verify` has nothing to hash."""
        try:
            for artifact in _artifacts(variant):
                with open_regular(artifact.path) as fd:
                    if not self._digests.knows(fd):
                        return False
        except (WarmlineError, OSError):
            pass  # `verify` says at once what is wrong
        return True

    def _capacity(
        self, base: str, adapters: list[VerifiedAdapter], n_ctx: int, n_ctx_train: int, context: ContextConfig
    ) -> Capacity:
        adapter_bytes = sum(adapter.summary.nbytes for adapter in adapters)
        key = (base, adapter_bytes, n_ctx, context.type_k, context.type_v)
        known = self._capacities.get(key)
        if known is None:
            known = self._capacities[key] = measure(
                self._headers[base],
                n_ctx=n_ctx,
                n_ctx_train=n_ctx_train,
                type_k=context.type_k,
                type_v=context.type_v,
                adapter_bytes=adapter_bytes,
                budget_bytes=default_budget(),
            )
        return known

    def _check_template(self, text: str) -> None:
        # The base's own template is compiled when somebody chats: completions do not need it.
        digest = bytes_digest(text.encode("utf-8", "surrogatepass"))
        if digest not in self._templates:
            ChatTemplate(text)
            self._templates[digest] = True

    def _base(self, base: ResolvedBase) -> str:
        with open_regular(base.path) as fd:
            if not self._digests.knows(fd):
                read_header(fd, label=str(base.path))
            digest = self._digests.digest_descriptor(fd)
            check_digest(digest, base.digest, str(base.path))
            self._check_approved(base, digest)
            if digest not in self._headers:
                self._headers[digest] = read_base(fd, label=str(base.path))
        return digest

    def _adapter(self, spec: ResolvedAdapter, base_digest: str) -> VerifiedAdapter:
        with open_regular(spec.path) as fd:
            if not self._digests.knows(fd):
                read_adapter(fd, label=str(spec.path))  # what is no adapter is not worth hashing
            digest = self._digests.digest_descriptor(fd)
            check_digest(digest, spec.digest, str(spec.path))
            self._check_approved(spec, digest)
            checked = self._adapters.get((base_digest, digest))
            if checked is None:
                checked = check_gguf_adapter(fd, self._headers[base_digest], label=str(spec.path))
                self._adapters[base_digest, digest] = checked
        strict = spec.trust is Trust.CURATED
        check_declared_base(spec.name, spec.declared_base, base_digest, str(spec.path), strict=strict)
        effective = effective_scale(Fraction(spec.scale), checked.summary.alpha, checked.summary.rank)
        matches = spec.declared_base.digest == base_digest
        return VerifiedAdapter(spec, checked.summary, digest, effective, matches, checked.zero_pairs)

    def _check_approved(self, artifact: ResolvedBase | ResolvedAdapter, digest: str) -> None:
        if artifact.workspace and not self._approved(digest):
            kind = "base" if isinstance(artifact, ResolvedBase) else "adapter"
            raise TrustError(  # without a file: `_blamed` would put its path before all else
                f"the {kind} `{artifact.name}` ({short(digest)}) is not approved; this workspace brings it: "
                f"{artifact.path}",
                code="trust.unapproved",
                remedy="If you trust where it came from, run in this workspace: warmline trust add --workspace",
            )


def _artifacts(variant: ResolvedVariant) -> list[ResolvedBase | ResolvedAdapter]:
    return [variant.base, *variant.adapters]


def _check_unlike(variant: ResolvedVariant, adapters: list[VerifiedAdapter]) -> None:
    """Refuse the same content twice: llama.cpp would take it once and ignore the second scale."""
    seen: dict[str, str] = {}
    for index, adapter in enumerate(adapters):
        if adapter.digest in seen:
            raise VariantError(
                f"adapters `{seen[adapter.digest]}` and `{adapter.spec.name}` hold the same ({short(adapter.digest)})",
                code="variant.same_adapter",
                file=variant.file,
                field=f"adapters[{index}]",
                remedy="Name it once, with the scale that the two would add up to",
            )
        seen[adapter.digest] = adapter.spec.name


def _bos(variant: ResolvedVariant, facts: BaseFacts) -> int | None:
    policy = variant.profile.bos
    if policy == "never" or (policy == "auto" and not facts.add_bos):
        return None
    if facts.bos is None and policy == "always":
        raise PromptError(
            "the base has no BOS token",
            code="prompt.bos",
            field="profile.bos",
            remedy="Set it to `auto` or `never`",
        )
    return facts.bos


@contextmanager
def _blamed(variant: ResolvedVariant, part: str) -> Iterator[None]:
    """Point errors about an artifact at the field of the variant file that names it; the artifact stays in the text."""
    try:
        yield
    except WarmlineError as error:
        if error.file == variant.file:
            raise
        inner = error.field
        if inner in ("digest", "scale"):
            error.field = f"{part}.{inner}"
        elif inner is None or not inner.startswith(part):
            error.field = f"{part}.path" if part != "profile" else part
            if inner:
                error.message = f"{inner}: {error.message}"
        if error.file:
            error.message = f"{error.file}: {error.message}"
        error.file = variant.file
        raise
