"""The second backend: whether it is there, and that its prefix cache lets no adapter's KV through to another."""

from __future__ import annotations

from collections.abc import Iterator

from warmline.backends.openvino_guarantee import Canary, remember, remembered
from warmline.backends.openvino_native import INSTALL, installed, package_version
from warmline.filemodel import Trust
from warmline.registry import Store
from warmline.variant import ResolvedVariant

from . import Check, fail, ok, warn

_OWN = "each identity has a pipeline of its own"
_PROMPT = "def transfer(source, target, amount):\n    return source.move(amount, target)\n\n\n"


def checks(store: Store, *, probe: bool) -> Iterator[Check]:
    """Yield what is installed and what is guaranteed.

    Parameters
    ----------
    probe
        Measure the prefix cache of this version, on the first variant that can show it; takes a minute.
    """
    if not installed():
        yield ok("openvino", f"not installed; variants of `llama` need it not. To add it: {INSTALL}", installed=False)
        return
    version = package_version()
    yield ok("openvino", f"OpenVINO GenAI {version}", installed=True, version=version)
    found = remembered(store.home, version)
    if probe:
        variant = _variant(store)
        if variant is None:
            message, remedy = "there is no variant of this backend with an adapter", "warmline variant add --help"
            yield warn("openvino cache", f"not measured: {message}", remedy)
            return
        found = _measure(variant, store)
        remember(store.home, found)
    yield _guarantee(found)


def check_variant(variant: ResolvedVariant) -> list[str]:
    """Check a variant's folders by names, shapes and configs; return the adapters that nothing ties to this very base.

    Raises
    ------
    ArtifactError
        As `verified_openvino.FolderFiles`, but for digests: nothing is hashed.
    """
    from warmline.artifacts.peft import read_peft  # NumPy, for stores that have such variants
    from warmline.backends.openvino_facts import FolderConfig
    from warmline.backends.openvino_names import match
    from warmline.validation import check_declared_base
    from warmline.verified_openvino import adapter_folder, read_folder

    network = read_folder(variant.base.path)
    FolderConfig(variant.base.path)
    base, claimed = variant.base, frozenset({network.source_digest} if network.source_digest else ())
    loose = []
    for spec in variant.adapters:
        adapter = read_peft(adapter_folder(spec.path))
        match(adapter.pairs, network.matmuls, adapter.file)
        if base.digest is not None:
            check_declared_base(
                spec.name,
                spec.declared_base,
                base.digest,
                adapter.file,
                strict=spec.trust is Trust.CURATED,
                source=base.source_digest,
                claimed=claimed,
            )
        if not spec.declared_base.means(base.digest, base.source_digest):
            loose.append(spec.name)
    return loose


def _guarantee(found: Canary | None) -> Check:
    if found is None:
        message = f"{_OWN}; not measured for this version yet (warmline doctor --probe)"
        return ok("openvino cache", message, measured=False)
    detail = {"measured": True, "shared_mixes": found.shared_mixes, "own_apart": found.own_apart}
    if not found.own_apart:
        remedy = "Do not use this version: install the one that Warmline names, and report this"
        return fail(
            "openvino cache", "a pipeline of its own answered with KV that is not its identity's", remedy, **detail
        )
    shared = "mixes adapters on a shared pipeline" if found.shared_mixes else "keeps adapters apart by itself"
    return ok("openvino cache", f"{_OWN}, and answers as without a cache; this version {shared} (measured)", **detail)


def _variant(store: Store) -> ResolvedVariant | None:
    names = (f"openvino/{one.name}" for one in store.variants() if one.backend == "openvino")
    return next((found for found in map(store.resolve, names) if found.adapters), None)


def _measure(variant: ResolvedVariant, store: Store) -> Canary:
    from warmline.backends.llama import LlamaBackend
    from warmline.backends.openvino import OpenVinoBackend
    from warmline.backends.openvino_canary import probe
    from warmline.backends.openvino_pipeline import Recipe
    from warmline.digests import DigestCache
    from warmline.trust import TrustStore
    from warmline.verified import Verifier

    digests = DigestCache(store.home / "cache" / "digests.json")
    backend = OpenVinoBackend(digests)
    try:
        approved = TrustStore(store.home / "trust.json").approved
        verified = Verifier(LlamaBackend(digests), digests, approved, openvino=backend).verify(variant)
        model = backend.load(variant.base.path, verified.identity.base)
        adapter = verified.adapters[0].on_disk
        recipe = Recipe(variant.base.path, verified.identity.base, (adapter,), verified.context)
        return probe(recipe, model.tokenize(_PROMPT * 6), digests)
    finally:
        backend.close()
