"""What people read in place of codes: who vouches for an artifact, how much of a prompt was there."""

from __future__ import annotations


def trust_label(catalog: str, *, verified: bool) -> str:
    """Say who vouches for an artifact; *unverified* where nothing ties it to its base by digest."""
    return vouched(f"curated by {catalog}" if catalog else "user", verified=verified)


def vouched(trust: str, *, verified: bool) -> str:
    """Add to whoever vouches for an artifact that nothing ties it to its base, where that is so."""
    return trust if verified else f"{trust}, unverified"


def warmth(reason: str, reused: int, prompt: int, *, estimated: bool = False) -> str:
    """Say how much of a prompt's KV was there, and why not more; `reason` is that of `wire.Started`."""
    kind, _, detail = reason.partition(":")
    there = f"{reused} of {prompt} tokens were there{' (estimated)' if estimated else ''}"
    if kind == "warm":
        return f"warm: {there}"
    if kind == "prefix":
        return f"{'warm' if 2 * reused >= prompt else 'partly warm'}: {there}, what follows them is new"
    if kind == "identity":
        return f"not warm: this document's last request ran as another variant ({detail} differs)"
    reasons = {"cold": "nothing of this text was there", "evicted": "its KV had to make room"}
    return f"not warm: {reasons.get(kind, reason)}"
