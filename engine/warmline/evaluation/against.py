"""What a variant is compared with: its base, or itself asked in another way."""

from __future__ import annotations

from ..prompts.fim import FimProfile
from ..variant import ResolvedVariant


def base_of(variant: ResolvedVariant) -> ResolvedVariant | None:
    """Return the base alone, asked as itself; None of a variant without adapters, which is its base.

    Sentinels that a profile names are what its adapter was taught: a base that never saw them as such is asked as its
    own metadata says, else by the prefix alone.
    """
    if not variant.adapters:
        return None
    profile = variant.profile
    if profile.fim is not None and profile.fim.tokens is not None:
        profile = profile.model_copy(update={"fim": None})
    return variant.model_copy(update={"name": f"{variant.name}-base", "adapters": (), "profile": profile})


def prefix_only(variant: ResolvedVariant) -> ResolvedVariant:
    """Return the same variant that sees nothing of what stands behind the cursor."""
    stops = variant.profile.fim.stops if variant.profile.fim is not None else ()
    fim = FimProfile(order="prefix-only", stops=stops)
    profile = variant.profile.model_copy(update={"fim": fim})
    return variant.model_copy(update={"name": f"{variant.name}-prefix-only", "profile": profile})
