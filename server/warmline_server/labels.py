"""What people read in place of codes: who vouches for an artifact, how much was warm, how a suggestion ended."""

from __future__ import annotations

from typing import Final


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
    if kind == "rejected":
        return f"not warm: what was kept of it on disk was damaged or of something else ({detail}), and is removed"
    reasons = {"cold": "nothing of this text was there", "evicted": "its KV had to make room"}
    return f"not warm: {reasons.get(kind, reason)}"


# What cut a suggestion's text, or left nothing of it; what forbids it; what came in between.
_SUGGESTED: Final = {
    "after-deletion": "nothing after a deletion: type on, or ask for it",
    "binary": "nothing in a document that is no text",
    "blank-lines": "ended at blank lines",
    "block-end": "ended with its block",
    "cancelled": "no longer wanted by the editor",
    "deadline": "ended at the time limit",
    "degenerate": "went round in circles there",
    "fence": "ended with its block of code",
    "identity": "the variant was changed meanwhile",
    "length": "ended at the most tokens of a suggestion",
    "mid-line": "nothing in the middle of a line, unless asked for",
    "off:gitignored": "off for files that Git ignores",
    "off:language": "off for this language, by the settings",
    "off:path": "off for this path, by the settings",
    "no-workspace": "no `.warmline` folder here and no default variant",
    "only-when-asked": "only when asked for, by the settings",
    "out-of-sync": "the editor's and the server's text differ: open the file again",
    "prose": "turned to prose there",
    "repeats-above": "would repeat the line above",
    "repeats-closer": "would close a bracket that is closed already",
    "repeats-lines": "would repeat lines that are there already",
    "repeats-suffix": "would repeat what follows the cursor",
    "restricted": "nothing but your default variant before this workspace is trusted, and there is none",
    "scheme": "only files of this machine have suggestions",
    "secret": "nothing in files that may hold secrets",
    "stop": "ended where such texts end",
    "superseded": "replaced by a newer request",
    "unbalanced": "would close a bracket that is not open",
    "weak": "hidden: the model was not sure enough",
    "whitespace": "nothing but blanks",
}


def suggested(reason: str) -> str:
    """Say how a request for a suggestion ended; a reason that is not known here is given as it is."""
    return _SUGGESTED.get(reason) or _SUGGESTED.get(reason.partition(":")[0], reason)
