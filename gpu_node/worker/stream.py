"""How do one session's chunks come out of the child?

The stream that decides when a chunk is made lives in the child. This is its far end: it says when
the next chunk is needed, and holds the one that has come. It never asks for a chunk while one waits
here, so there is at most one that was made and not taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from gpu_node.services.contract import Chunk
from shared.errors import ServiceFault


class ChildStream:
    """What `gpu_node.services.stream.ChunkStream` is to the player, from another process."""

    def __init__(self, post: Callable[..., None], pipeline_session_id: str) -> None:
        self._post = post
        """Sends one wish, given as ``do`` and its fields."""
        self._id = pipeline_session_id
        self._inbox: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._received = 0
        self._waited_s: float | None = None
        """How long the last chunk was waited for; told once."""
        self._error: ServiceFault | None = None
        self.is_wanted = False
        """The player waits."""
        self.last_made_in_s = 0.0
        """How long the service took for the chunk that has come last."""
        self.last_began_s = 0.0
        """When it began with it; the child is on the same machine, so it has the same clock."""
        self.ended = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """Whether the first chunk has come."""
        return self._received > 0

    def __aiter__(self) -> ChildStream:
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk; raises `ServiceFault` when the service does, or has died."""
        if self._inbox.empty():
            self._wish("ask")
        needed_s = time.monotonic()
        self.is_wanted = True
        try:
            chunk = await self._inbox.get()
        finally:
            self.is_wanted = False
            self._waited_s = time.monotonic() - needed_s
        if chunk is None:
            self._inbox.put_nowait(None)  # for whoever asks again
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        return chunk

    def needed_in(self, seconds: float) -> None:
        """The player will need the next chunk in *seconds*: have it made just before."""
        if self._inbox.empty():
            self._wish("needed_in", seconds=seconds)

    async def stop(self, timeout_s: float) -> None:
        """End the chunks and wait for it, at most *timeout_s*."""
        if not self.ended.is_set():
            self._post("stop", session=self._id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()

    def _wish(self, what: str, **fields: Any) -> None:
        if not self.ended.is_set():
            waited_s, self._waited_s = self._waited_s, None
            number = self._received + 1
            self._post(what, session=self._id, number=number, waited_s=waited_s, **fields)

    # --- told by the host -----------------------------------------------------------------------

    def on_chunk(self, chunk: Chunk, made_in_s: float, began_s: float) -> None:
        """A chunk has come, which took the service so long, from then on."""
        self._received += 1
        self.last_made_in_s, self.last_began_s = made_in_s, began_s
        self._inbox.put_nowait(chunk)

    def on_end(self, error: ServiceFault | None) -> None:
        """No more will come; the first word about it counts."""
        if not self.ended.is_set():
            self._error = error
            self.ended.set()
            self._inbox.put_nowait(None)
