"""Bodies of HTTP answers that cannot fill the memory: counted while they come, and never unpacked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, cast

import httpx2

MOST_BYTES: Final = 8 << 20
#: What asks a server to send bodies as they are: a small one that is packed may unpack to anything.
IDENTITY: Final = {"Accept-Encoding": "identity"}


async def bound(response: httpx2.Response) -> None:
    """Let an answer's body fail where it grows too large; a hook of `httpx2.AsyncClient`.

    A stream of events has no end, and whoever reads it bounds each event.

    Raises
    ------
    httpx2.RemoteProtocolError
        The body is packed, although that was not asked for.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        await response.aclose()
        raise httpx2.RemoteProtocolError("the server packs its answers, which was not asked for")
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = _Counted(cast(httpx2.AsyncByteStream, response.stream))


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for part in self._stream:
            count += len(part)
            if count > MOST_BYTES:
                raise httpx2.ReadError(f"an answer is longer than {MOST_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
