"""`warmline.trust`: ask, in the editor, whether what a workspace brings may be loaded."""

from __future__ import annotations

from typing import Any

from .call import AboutDocument, Call


class TrustArguments(AboutDocument):
    """What `warmline.trust` takes: a document of the workspace, and a variant other than the selected one."""

    variant: str | None = None


async def trust(call: Call) -> dict[str, Any]:
    """Show digests and ask; answer ``{approved: [{name, digest, file}]}``. Nothing is approved without that answer.

    What was approved has been loaded by then, or has failed, so that the status is about what there is now.
    """
    given = call.arguments(TrustArguments)
    place = call.place(given.uri)
    variant = call.variant(place, given.variant)
    approved = await call.session.offer_trust(place, variant, unasked=False)
    if approved:
        await call.session.settled()
    return {"approved": [{"name": each.name, "digest": each.digest, "file": each.file} for each in approved]}
