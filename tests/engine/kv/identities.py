"""Identities for tests of warm KV; their names say in what they differ."""

from __future__ import annotations

from warmline.identity import AdapterIdentity, ContextIdentity, Identity


def identity(adapter: str = "", *, base: str = "sha256:base", scale: str = "1", n_ctx: int = 512) -> Identity:
    adapters = (AdapterIdentity(f"sha256:{adapter}", scale, scale),) if adapter else ()
    return Identity("llama.cpp", "1", base, adapters, "sha256:t", "none", "none", ContextIdentity(n_ctx))


# Alike but for one field: what a careless key would take for one another.
ALL = (
    identity(),
    identity("a"),
    identity("b"),
    identity("a", scale="0.5"),
    identity("a", n_ctx=256),
    identity(base="sha256:other"),
)
