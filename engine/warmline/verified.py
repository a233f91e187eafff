"""A variant with every file hashed and checked, and the identity that follows: what may be loaded, and as what."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

from cachetools import LRUCache

from .backends import openvino_native
from .backends.base import AdapterOnDisk, Backend, BaseFacts, ContextConfig
from .capacity import Capacity
from .digests import DigestCache, bytes_digest, short
from .errors import BackendError, PromptError, TrustError, VariantError, WarmlineError
from .filemodel import Trust
from .host.wire import AdapterStatus, BackendStatus, BaseStatus, ContextStatus, VariantStatus
from .identity import AdapterIdentity, Identity, exact_decimal
from .prompts.chat import ChatTemplate, choose_template
from .prompts.fim import FimFormat, choose_fim
from .validation import check_declared_base, check_digest, checked_scale
from .variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant, blamed
from .verified_files import KnownAdapter, VariantFiles
from .verified_gguf import GGUFFiles

_REMEMBERED: Final = 64
_TOOLS: Final = re.compile(r"\btools\b")


@dataclass(frozen=True, slots=True)
class VerifiedAdapter:
    """An adapter whose bytes are known and fit the base. `effective_scale` = scale * alpha / rank, exactly."""

    spec: ResolvedAdapter
    known: KnownAdapter
    effective_scale: Fraction
    declared_base_matches: bool

    @property
    def digest(self) -> str:
        """Digest of the weights."""
        return self.known.digests[0]

    @property
    def on_disk(self) -> AdapterOnDisk:
        """What the backend loads, with the scale that its native call wants."""
        scale = float(Fraction(self.spec.scale) * self.known.native_factor)
        return AdapterOnDisk(self.spec.name, self.known.path, self.digest, scale)


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

    @property
    def base_bytes(self) -> int:
        """Bytes of the base's weights on disk."""
        return 0 if self.capacity is None else self.capacity.base_bytes

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
                    rank=adapter.known.rank,
                    alpha=adapter.known.alpha,
                    effect=effects.get(adapter.digest),
                    zero_pairs=len(adapter.known.zero_pairs),
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
        The library that runs variants of llama.cpp: its version and its reading of the vocabulary are identity.
    digests
        Content digests.
    approved
        Tells whether the user approved a digest; asked for artifacts that a workspace brings.
    openvino
        The library that runs variants of OpenVINO, if it is there.
    """

    def __init__(
        self,
        backend: Backend,
        digests: DigestCache,
        approved: Callable[[str], bool],
        *,
        openvino: Backend | None = None,
    ) -> None:
        self._backends = {"llama": backend} | ({"openvino": openvino} if openvino is not None else {})
        self._digests = digests
        self._approved = approved
        self._files: dict[str, VariantFiles] = {"llama": GGUFFiles(digests)}
        self._templates: LRUCache[str, bool] = LRUCache(_REMEMBERED)
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
            found = (known.identity.base, *(digest for one in known.adapters for digest in one.known.digests))
            self._verified[variant, found] = known
        return known

    def _digests_now(self, variant: ResolvedVariant) -> tuple[str, ...] | None:
        """Return the digests of the approved files as they are now; None when it takes more than a look at them."""
        found: list[str] = []
        try:
            files = self._files_of(variant)
            for artifact in _artifacts(variant):
                digests = files.known(artifact)
                if digests is None or (artifact.workspace and not self._approved(digests[0])):
                    return None
                found += digests
        except (WarmlineError, OSError):
            return None  # `_verify` says what is wrong
        return tuple(found)

    def _verify(self, variant: ResolvedVariant) -> Verified:
        backend = self._backend(variant)
        files = self._files_of(variant)
        with blamed(variant, "base", variant.base.named_by):
            base_digest = files.base(variant.base, partial(self._admit, variant.base))
        adapters = []
        for index, spec in enumerate(variant.adapters):
            with blamed(variant, f"adapters[{index}]", spec.named_by):
                adapters.append(self._adapter(spec, variant.base, base_digest, files))
        _check_unlike(variant, adapters)
        with blamed(variant, "base", variant.base.named_by):
            facts = backend.facts(variant.base.path, base_digest)
        profile = variant.profile
        with blamed(variant, "profile"):
            fim = choose_fim(profile.fim, facts.fim_tokens, facts.lookup, facts.end_of_generation)
            template, source = choose_template(profile.chat_template, facts.chat_template)
            if source == "profile":
                self._check_template(template)
            _check_tools(profile, template)
            bos = _bos(variant, facts)
            context = files.context(profile, facts)
        identity = Identity(
            backend=backend.name,
            backend_version=backend.version,
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
            reasoning=profile.reasoning.canonical() if profile.reasoning else "",
            tools=profile.tools or "",
        )
        adapter_bytes = sum(adapter.known.nbytes for adapter in adapters)
        capacity = files.capacity(base_digest, adapter_bytes, profile, facts, context)
        clamped = context.n_ctx < profile.n_ctx
        return Verified(variant, identity, tuple(adapters), facts, fim, source, bos, context, clamped, capacity)

    def hash_files(self, variant: ResolvedVariant) -> None:
        """Hash what is not in the cache of what a variant names; errors are left to `verify`."""
        with suppress(WarmlineError, OSError):
            files = self._files_of(variant)
            for artifact in _artifacts(variant):
                with suppress(WarmlineError, OSError):
                    for path in files.paths(artifact):
                        files.hash(path)

    def is_quick(self, variant: ResolvedVariant) -> bool:
        """Tell whether `verify` has nothing to hash."""
        try:
            files = self._files_of(variant)
            paths = (path for artifact in _artifacts(variant) for path in files.paths(artifact))
            return all(self._digests.seems_known(path) for path in paths)
        except (WarmlineError, OSError, ValueError):
            return True  # `verify` says at once what is wrong

    def _backend(self, variant: ResolvedVariant) -> Backend:
        found = self._backends.get(variant.backend)
        if found is None:
            raise BackendError(
                f"the backend `{variant.backend}` is not available here",
                code="backend.unavailable",
                file=variant.file,
                field="backend",
                remedy=f"Add it: {openvino_native.INSTALL}; or use a variant of the backend `llama`",
            )
        return found

    def _files_of(self, variant: ResolvedVariant) -> VariantFiles:
        if variant.backend == "openvino" and "openvino" not in self._files:
            from .verified_openvino import FolderFiles  # NumPy and more, for those who have such variants

            self._files["openvino"] = FolderFiles(self._digests)
        return self._files[variant.backend]

    def _check_template(self, text: str) -> None:
        # The base's own template is compiled when somebody chats: completions do not need it.
        digest = bytes_digest(text.encode("utf-8", "surrogatepass"))
        if digest not in self._templates:
            ChatTemplate(text)
            self._templates[digest] = True

    def _adapter(
        self, spec: ResolvedAdapter, base: ResolvedBase, base_digest: str, files: VariantFiles
    ) -> VerifiedAdapter:
        known = files.adapter(spec, base_digest, partial(self._admit, spec))
        strict = spec.trust is Trust.CURATED
        declared, source = spec.declared_base, base.source_digest
        check_declared_base(
            spec.name,
            declared,
            base_digest,
            str(spec.path),
            strict=strict,
            source=source,
            claimed=files.claimed(base_digest),
        )
        effective = checked_scale(Fraction(spec.scale) * known.factor)
        return VerifiedAdapter(spec, known, effective, declared.means(base_digest, source))

    def _admit(self, artifact: ResolvedBase | ResolvedAdapter, digest: str) -> None:
        check_digest(digest, artifact.digest, str(artifact.path), recorded=artifact.digest_recorded)
        self._check_approved(artifact, digest)

    def _check_approved(self, artifact: ResolvedBase | ResolvedAdapter, digest: str) -> None:
        if artifact.workspace and not self._approved(digest):
            kind = "base" if isinstance(artifact, ResolvedBase) else "adapter"
            if artifact.named_by == "name":
                why = "is not approved any more; it is installed, and a variant of this workspace names it"
            else:
                why = f"is not approved; this workspace brings it: {artifact.path}"
            raise TrustError(  # without a file: `blamed` would put its path before all else
                f"the {kind} `{artifact.name}` ({short(digest)}) {why}",
                code="trust.unapproved",
                remedy="If you trust where it came from, run in this workspace: warmline trust add --workspace",
            )


def _artifacts(variant: ResolvedVariant) -> list[ResolvedBase | ResolvedAdapter]:
    return [variant.base, *variant.adapters]


def _check_tools(profile: Profile, template: str) -> None:
    """Refuse a format of tool calls whose tools the model would never be told of."""
    if profile.tools is not None and _TOOLS.search(template) is None:
        raise PromptError(
            f"the chat template tells of no tools, so that the format `{profile.tools}` cannot be used",
            code="prompt.template_tools",
            field="profile.tools",
            remedy="Leave profile.tools out, or set profile.chat_template to one that writes `tools`",
        )


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
