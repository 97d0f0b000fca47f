"""Where does the service live: this process or a child?

In this process, with threads of its own, so that nothing of it runs on the agent's loop: one
*service loop* thread for ``create_session``, ``push_chunk`` and ``pull_chunks`` (services share
asyncio objects across the three), and a fresh thread for each call that may block (``start``,
``stop``, capacity, ``close_session``).

Chunks cross with back-pressure: while one chunk is played, the service makes the next, no more than
that, and no earlier than its own speed demands. So a control reaches the picture soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from gpu_node.services.contract import Bidirectional, Chunk, SizesItself
from gpu_node.services.loader import LoadedService, explained
from shared.errors import InvalidConfig, ServiceFault, ServiceLoadFailed
from shared.lifecycle import call_foreign, describe, foreign_code, in_thread

T = TypeVar("T")
_log = structlog.get_logger()

_SPEEDS_KEPT = 8
"""Chunks by whose making time the next one's is judged."""
_LEAST_MARGIN_S, _MOST_MARGIN_S = 0.04, 1.0
_LATE_S = 0.01
_MARGIN_DECAY = 0.99
_PUMP_STOP_S = 5.0
"""How long a cancelled ``pull_chunks`` may take before ``close_session`` is called all the same."""
_LOOP_STOP_S = 2.0
_WORDS_KEPT = 500
"""Characters of what a service says about a config."""


class ServiceHost:
    """One loaded service and its threads, seen from the agent's loop.

    Every method is called on the agent's loop; what the service raises arrives as `ServiceFault`
    with the service's own words.
    """

    def __init__(self, loaded: LoadedService) -> None:
        self._loaded = loaded
        self._service: Bidirectional = loaded.service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="service-loop", daemon=True)
        self._streams: dict[str, ChunkStream] = {}
        self._closed = False

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._loaded.name

    @property
    def start_timeout_s(self) -> float:
        """The service's own limit for starting a pipeline session; 0 without one."""
        declared = getattr(self._service, "start_timeout_s", 0.0)
        return float(declared) if isinstance(declared, int | float) and declared > 0 else 0.0

    async def start(self) -> None:
        """Start the service loop and the service; raises `ServiceLoadFailed`."""
        self._thread.start()
        name = self._loaded.name
        await _foreign_thread(
            "service-start",
            self._service.start,
            explained(self._loaded.path, f"start() in {name} failed"),
        )

    async def capacity(self, wanted: int | None) -> int:
        """Return how many sessions the service keeps; *wanted* only lowers what it says itself."""
        service = self._service
        if not isinstance(service, SizesItself):
            return wanted or 1
        name = self._loaded.name
        answer: object = await _foreign_thread(
            "service-capacity",
            lambda: service.configure_session_capacity(wanted),
            explained(self._loaded.path, f"configure_session_capacity() in {name} failed"),
        )
        capacity = answer.get("effective_capacity") if isinstance(answer, dict) else None
        if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 0:
            raise ServiceLoadFailed(
                f"configure_session_capacity() in {name} must return a dict with a whole number "
                "effective_capacity."
            )
        return min(capacity, wanted) if wanted else capacity

    async def create_session(self, config: dict[str, Any]) -> str:
        """Make a pipeline session and return its id; raises `InvalidConfig` for a bad config."""
        created: object = await self._on_service_loop(
            self._call(lambda: self._service.create_session(config), _refusal)
        )
        if not isinstance(created, str) or not created:
            raise ServiceFault("create_session() must return the session's id as a string.")
        return created

    async def push(self, pipeline_session_id: str, chunk: Chunk) -> None:
        """Hand one control message to the service; after the close it goes nowhere."""
        if self._closed:
            return
        await self._on_service_loop(
            self._call(
                lambda: self._service.push_chunk(pipeline_session_id, chunk), _fault("push_chunk")
            )
        )

    def chunks(self, pipeline_session_id: str) -> ChunkStream:
        """Return the session's chunks, once per session; the service begins at once."""
        stream = ChunkStream(self._service, pipeline_session_id, self._loop)
        self._streams[pipeline_session_id] = stream
        stream.start()
        return stream

    async def close_session(self, pipeline_session_id: str) -> None:
        """Return when nothing is left of the pipeline session; may take as long as the service
        does.

        The service hears ``stop`` and its stream is ended first. A service that won't let go of the
        stream is closed all the same, but then this waits for both: only a returned call confirms
        the clean-up.
        """
        self._loop.call_soon_threadsafe(self._say_stop, pipeline_session_id)
        stream = self._streams.pop(pipeline_session_id, None)
        if stream is not None:
            await stream.stop(_PUMP_STOP_S)
        await _foreign_thread(
            "service-close",
            lambda: self._service.close_session(pipeline_session_id),
            _fault("close_session"),
        )
        if stream is not None:
            await stream.ended.wait()

    async def aclose(self) -> None:
        """Stop the service and its loop; its faults are only logged."""
        if self._closed:
            return
        self._closed = True
        for stream in self._streams.values():
            await stream.stop(_LOOP_STOP_S)
        try:
            await _foreign_thread("service-stop", self._service.stop, _fault("stop"))
        except ServiceFault as error:
            _log.warning("service_stop_failed", error=str(error))
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            await in_thread("service-loop-join", lambda: self._thread.join(_LOOP_STOP_S))
        if not self._thread.is_alive():
            self._loop.close()
        self._loaded.unload()

    def _say_stop(self, pipeline_session_id: str) -> None:
        """Service loop: a session that is about to be closed may hear of it or not."""
        try:
            call_foreign(
                lambda: self._service.push_chunk(pipeline_session_id, {"type": "stop"}),
                _fault("push_chunk"),
            )
        except ServiceFault as error:
            _log.debug("stop_not_taken", error=str(error))

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _call(
        self, call: Callable[[], T], explain: Callable[[BaseException], ServiceFault]
    ) -> T:
        return call_foreign(call, explain)

    async def _on_service_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class ChunkStream:
    """One session's ``pull_chunks`` on the service loop, and its chunks on the agent's loop.

    At most one chunk is made and not yet taken. It's made as late as the service's own speed
    allows, when the player says until when it needs it: what is made later knows later controls.
    """

    def __init__(
        self, service: Bidirectional, pipeline_session_id: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._service = service
        self._id = pipeline_session_id
        self._service_loop = loop
        self._agent_loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[tuple[Chunk, float] | None] = asyncio.Queue()
        self._may_make = asyncio.Semaphore(0)
        """Touched on the service loop only."""
        self._pump: asyncio.Task[None] | None = None
        """Written on the service loop only."""
        self._asked = False
        """A chunk was asked for and not yet taken."""
        self._asking: asyncio.TimerHandle | None = None
        self._made_in_s: deque[float] = deque(maxlen=_SPEEDS_KEPT)
        self._margin_s = _LEAST_MARGIN_S
        """Grows with each chunk that came too late and shrinks slowly while they are in time."""
        self._error: BaseException | None = None
        self.ended = asyncio.Event()
        """Agent's loop: nothing of ``pull_chunks`` runs any more."""

    def __aiter__(self) -> ChunkStream:
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk; raises `ServiceFault` when the service does."""
        self._ask()
        needed_s = time.monotonic()
        made = await self._inbox.get()
        self._learn(time.monotonic() - needed_s)
        if made is None:
            self._inbox.put_nowait(None)  # for whoever asks again
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        self._asked = False
        self._made_in_s.append(made[1])
        return made[0]

    def needed_in(self, seconds: float) -> None:
        """The player will need the next chunk in *seconds*: have it made just before."""
        if self._asking is not None:
            self._asking.cancel()
        spare_s = seconds - self._lead_s()
        self._asking = self._agent_loop.call_later(max(0.0, spare_s), self._ask)

    def start(self) -> None:
        """Let the service begin with the first chunk."""
        self._service_loop.call_soon_threadsafe(self._start_pump)
        self._ask()

    async def stop(self, timeout_s: float) -> None:
        """Cancel ``pull_chunks`` and wait for its end, at most *timeout_s*."""
        if self._asking is not None:
            self._asking.cancel()
        self._service_loop.call_soon_threadsafe(self._cancel_pump)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()

    def _ask(self) -> None:
        if not self._asked and not self.ended.is_set():
            self._asked = True
            self._service_loop.call_soon_threadsafe(self._may_make.release)

    def _lead_s(self) -> float:
        """How long before it's needed a chunk must be begun; endless until the speed is known."""
        if len(self._made_in_s) < _SPEEDS_KEPT // 2:
            return math.inf
        return max(self._made_in_s) + self._margin_s

    def _learn(self, waited_s: float) -> None:
        if waited_s > _LATE_S:
            self._margin_s = min(2 * self._margin_s + waited_s, _MOST_MARGIN_S)
        else:
            self._margin_s = max(_MARGIN_DECAY * self._margin_s, _LEAST_MARGIN_S)

    def _start_pump(self) -> None:
        self._pump = self._service_loop.create_task(self._run(), name=f"pull_chunks {self._id}")
        self._pump.add_done_callback(self._on_pump_done)

    def _cancel_pump(self) -> None:
        if self._pump is not None:
            self._pump.cancel()

    async def _run(self) -> None:
        with foreign_code(_fault("pull_chunks")):
            await self._may_make.acquire()
            began_s = time.monotonic()
            async with _closing(self._service.pull_chunks(self._id)) as chunks:
                async for chunk in chunks:
                    made = (chunk, time.monotonic() - began_s)
                    self._agent_loop.call_soon_threadsafe(self._inbox.put_nowait, made)
                    await self._may_make.acquire()
                    began_s = time.monotonic()

    def _on_pump_done(self, pump: asyncio.Task[None]) -> None:
        if not pump.cancelled():
            error = pump.exception()
        elif pump.cancelling():
            error = None
        else:  # nobody asked for it: the service awaited something of its own that was cancelled
            error = _fault("pull_chunks")(RuntimeError("it was cancelled from within"))
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


def _fault(method: str) -> Callable[[BaseException], ServiceFault]:
    return lambda error: ServiceFault(f"{method}() of the service failed: {describe(error)}.")


def _refusal(error: BaseException) -> ServiceFault:
    """A ValueError from ``create_session`` says that the config is wrong, not the service."""
    if isinstance(error, ValueError):
        return InvalidConfig(f"The service refused the config: {str(error)[:_WORDS_KEPT]}")
    return _fault("create_session")(error)


async def _foreign_thread(
    name: str, call: Callable[[], T], explain: Callable[[BaseException], ServiceFault]
) -> T:
    return await in_thread(name, lambda: call_foreign(call, explain))
