"""How are server-sent events sent to one client, until it leaves or nothing more comes?

Written against ASGI itself: a framework's streaming response notices too late that its client is
gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

COMMENT = b": still here\n\n"
"""Keeps proxies from closing a quiet stream, and finds out clients that are gone."""
COMMENT_EVERY_S = 15.0
_HEADERS = {"X-Accel-Buffering": "no"}


def event(name: str, data: str, number: str | int | None = None) -> bytes:
    """Return one event; *number* is what a client that comes back names as its last."""
    numbered = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{numbered}data: {data}\n\n".encode()


def retry(after_ms: int) -> bytes:
    """Return the hint after which time a client should come back."""
    return f"retry: {after_ms}\n\n".encode()


class EventStream(Response):
    """Sends *chunks* as they come; *close* is called in any case once it is over."""

    def __init__(self, chunks: AsyncIterator[bytes], close: Callable[[], None]) -> None:
        super().__init__(headers=_HEADERS, media_type="text/event-stream")
        del self.headers["content-length"]
        self._chunks = chunks
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until there are no more chunks, or the client leaves."""
        pump = asyncio.create_task(self._pump(send), name="event_stream")
        gone = asyncio.create_task(_until_gone(receive), name="event_stream_client")
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._close()
            for task in (pump, gone):
                task.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
        if not pump.cancelled():
            pump.result()  # a bug of ours is no end of a stream

    async def _pump(self, send: Send) -> None:
        with contextlib.suppress(OSError):  # the client is gone
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
