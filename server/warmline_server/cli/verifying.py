"""A variant verified in this very process, for commands that look at identities and never at weights."""

from __future__ import annotations

from warmline.digests import DigestCache
from warmline.registry import warmline_home
from warmline.trust import TrustStore
from warmline.variant import ResolvedVariant
from warmline.verified import Verified, Verifier

from .output import Output


def verified(output: Output, variant: ResolvedVariant) -> Verified:
    """Verify a variant's files as the engine does; vocabularies are loaded, weights are not.

    Raises
    ------
    WarmlineError
        As `Verifier.verify`.
    """
    output.guard()
    from warmline.backends.llama import LlamaBackend
    from warmline.backends.openvino import OpenVinoBackend
    from warmline.backends.openvino_native import installed

    home = warmline_home()
    digests = DigestCache(home / "cache" / "digests.json")
    backend = LlamaBackend(digests)
    openvino = OpenVinoBackend(digests) if installed() else None
    try:
        approved = TrustStore(home / "trust.json").approved
        return Verifier(backend, digests, approved, openvino=openvino).verify(variant)
    finally:
        backend.close()
        if openvino is not None:
            openvino.close()
