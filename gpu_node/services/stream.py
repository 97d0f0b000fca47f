"""When is a session's next chunk made, and how does it reach the player?

``pull_chunks`` runs as one task on the service loop; its chunks are taken on the agent's loop.
Back-pressure: while one chunk is played, the service makes the next, no more than that, and no
earlier than its own speed demands. So a control reaches the picture soon. What a service says on
the way to a chunk (``status``) goes out at once and leaves it at work.

Sessions that share a model by the execution lease wait here for their turn, once per chunk.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from gpu_node.lease.turns import Turn, Turns
from gpu_node.services.contract import Bidirectional, Chunk
from shared.errors import ServiceFault
from shared.lifecycle import describe, foreign_code

_SPEEDS_KEPT = 8
"""Chunks by whose making time the next one's is judged."""
_LEAST_MARGIN_S, _MOST_MARGIN_S = 0.04, 1.0
_LATE_S = 0.01
_MARGIN_DECAY = 0.99
_STATUSES_PER_CHUNK = 16
"""After so many in a row the service waits until the player takes them: they'd pile up."""
_END = object()
LEASE_WAIT = "lease_wait_seconds"
"""What is added to a chunk for which the execution lease had to be held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What comes out of the service."""

    chunk: Chunk
    is_asked_for: bool = True
    """Once it's taken the service goes on only when the player asks again."""
    made_in_s: float | None = None
    """None for a status."""
    began_s: float = 0.0
    waited_s: float = 0.0
    """For the execution lease."""


class ChunkStream:
    """One session's ``pull_chunks`` on the service loop, and its chunks on the agent's loop.

    At most one chunk is made and not yet taken. It's made as late as the service's own speed
    allows, when the player says until when it needs it: what is made later knows later controls.
    """

    def __init__(
        self,
        service: Bidirectional,
        pipeline_session_id: str,
        loop: asyncio.AbstractEventLoop,
        turns: Turns | None = None,
    ) -> None:
        self._service = service
        self._turns = turns
        """Touched on the service loop only; None: the service needs no lease."""
        self._id = pipeline_session_id
        self._service_loop = loop
        self._agent_loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[_Made | None] = asyncio.Queue()
        self._may_make = asyncio.Semaphore(0)
        """Touched on the service loop only."""
        self._pump: asyncio.Task[None] | None = None
        """Written on the service loop only."""
        self._cancelled = False
        """Service loop only. A service may swallow its cancellation; then it ends at the next thing
        that it yields, for nobody will ask for more."""
        self._asked = False
        """A chunk was asked for and not yet taken."""
        self._asking: asyncio.TimerHandle | None = None
        self._took_s: deque[float] = deque(maxlen=_SPEEDS_KEPT)
        """From asking to having, with the wait for the lease."""
        self.last_made_in_s = 0.0
        """How long the service took for the chunk that was taken last."""
        self.last_began_s = 0.0
        """When it began with that chunk, by `time.monotonic`."""
        self._margin_s = _LEAST_MARGIN_S
        """Grows with each chunk that came too late and shrinks slowly while they are in time."""
        self._error: BaseException | None = None
        self.ended = asyncio.Event()
        """Agent's loop: nothing of ``pull_chunks`` runs any more."""

    def __aiter__(self) -> ChunkStream:
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk; raises `ServiceFault` when the service does."""
        self.ask()
        needed_s = time.monotonic()
        try:
            return await self.take()
        finally:
            self.learn(time.monotonic() - needed_s)

    async def take(self) -> Chunk:
        """Return the next chunk once it's made, without asking for it; raises as `anext` does."""
        made = await self._inbox.get()
        if made is None:
            self._inbox.put_nowait(None)  # for whoever asks again
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        if made.is_asked_for:
            self._asked = False
            if self._asking is not None:  # it was for this chunk
                self._asking.cancel()
        if made.made_in_s is not None:
            self.last_made_in_s, self.last_began_s = made.made_in_s, made.began_s
            self._took_s.append(made.waited_s + made.made_in_s)
        return made.chunk

    def needed_in(self, seconds: float) -> None:
        """The player will need the next chunk in *seconds*: have it made just before."""
        if self._asking is not None:
            self._asking.cancel()
        spare_s = seconds - self._lead_s()
        self._asking = self._agent_loop.call_later(max(0.0, spare_s), self.ask)

    def start(self) -> None:
        """Let the service begin with the first chunk."""
        self._service_loop.call_soon_threadsafe(self._start_pump)
        self.ask()

    async def stop(self, timeout_s: float) -> None:
        """Cancel ``pull_chunks`` and wait for its end, at most *timeout_s*."""
        if self._asking is not None:
            self._asking.cancel()
        self._service_loop.call_soon_threadsafe(self._cancel_pump)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()

    def ask(self) -> None:
        """Have the next chunk made now."""
        if not self._asked and not self.ended.is_set():
            self._asked = True
            self._service_loop.call_soon_threadsafe(self._may_make.release)

    def _lead_s(self) -> float:
        """How long before it's needed a chunk must be begun; endless until the speed is known."""
        if len(self._took_s) < _SPEEDS_KEPT // 2:
            return math.inf
        return max(self._took_s) + self._margin_s

    def learn(self, waited_s: float) -> None:
        """The player had to wait so long for a chunk: begin the later ones sooner, or later."""
        if waited_s > _LATE_S:
            self._margin_s = min(2 * self._margin_s + waited_s, _MOST_MARGIN_S)
        else:
            self._margin_s = max(_MARGIN_DECAY * self._margin_s, _LEAST_MARGIN_S)

    def _start_pump(self) -> None:
        self._pump = self._service_loop.create_task(self._run(), name=f"pull_chunks {self._id}")
        self._pump.add_done_callback(self._on_pump_done)

    def _cancel_pump(self) -> None:
        self._cancelled = True
        if self._pump is not None:
            self._pump.cancel()

    async def _run(self) -> None:
        with foreign_code(fault_in("pull_chunks")):
            await self._may_make.acquire()
            async with _closing(self._service.pull_chunks(self._id)) as chunks:
                while await self._make(chunks):
                    await self._may_make.acquire()

    async def _make(self, chunks: AsyncIterator[Chunk]) -> bool:
        """Have one chunk made, when it's the session's turn; False at the end."""
        async with self._turn() as turn:
            began_s = time.monotonic()
            for left in reversed(range(_STATUSES_PER_CHUNK)):
                chunk: Any = await anext(chunks, _END)
                if self._cancelled:
                    return False
                if not _is_status(chunk):
                    break
                self._send(_Made(chunk=chunk, is_asked_for=left == 0))
            else:
                return True
            turn.counts = chunk is not _END
        if chunk is _END:
            return False
        if self._turns is not None and isinstance(chunk, dict):
            chunk = {**chunk, LEASE_WAIT: round(turn.waited_s, 4)}
        made_in_s = time.monotonic() - began_s
        self._send(_Made(chunk=chunk, made_in_s=made_in_s, began_s=began_s, waited_s=turn.waited_s))
        return True

    def _turn(self) -> AbstractAsyncContextManager[Turn]:
        if self._turns is None:
            return contextlib.nullcontext(Turn())
        return self._turns.turn(
            self._id, lambda status: self._send(_Made(chunk=status, is_asked_for=False))
        )

    def _send(self, made: _Made) -> None:
        self._agent_loop.call_soon_threadsafe(self._inbox.put_nowait, made)

    def _on_pump_done(self, pump: asyncio.Task[None]) -> None:
        if not pump.cancelled():
            error = pump.exception()
        elif pump.cancelling():
            error = None
        else:  # nobody asked for it: the service awaited something of its own that was cancelled
            error = fault_in("pull_chunks")(RuntimeError("it was cancelled from within"))
        if self._turns is not None:
            self._turns.over(self._id, failed=error is not None)
        self._agent_loop.call_soon_threadsafe(self._on_end, error)

    def _on_end(self, error: BaseException | None) -> None:
        self._error = error
        self.ended.set()
        self._inbox.put_nowait(None)


@contextlib.asynccontextmanager
async def _closing(chunks: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Close a generator that is left before its end; other iterators have nothing to close."""
    try:
        yield chunks
    finally:
        aclose = getattr(chunks, "aclose", None)
        if aclose is not None:
            await aclose()


def _is_status(chunk: object) -> bool:
    return isinstance(chunk, dict) and chunk.get("type") == "status"


def fault_in(method: str) -> Callable[[BaseException], ServiceFault]:
    """Return what turns an error of *method* into one sentence with the service's own words."""
    return lambda error: ServiceFault(f"{method}() of the service failed: {describe(error)}.")
