"""How does a film that is only watched play like a world that is played?

A server push service has ``serve(request)`` and no sessions. `ServerPushAdapter` gives it the
bidirectional shape with one session at a time: ``serve`` runs in a daemon thread of its own with an
event loop of its own, as such files expect, and its chunks cross a bridge that holds few of them,
so a quick service waits for the player instead of filling the memory.

An end (``stop``, a close) shows at once: no further chunk crosses. The thread is asked to end with
it; code that blocks can't be interrupted, so only its return confirms the clean-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from gpu_node.services.contract import Chunk, ServerPush
from gpu_node.services.stream import fault_in
from shared.errors import ServiceFault, ServiceLoadFailed
from shared.lifecycle import foreign_code, plainly

CAPACITY = 1
BRIDGE_CHUNKS = 2
"""Made and not yet taken; such a service takes no controls, so being ahead costs memory alone."""
_ASK_AGAIN_S = 5.0
"""A generator may swallow a cancellation; it gets another one."""
_STOP_WITHIN_S = 5.0


class ServerPushAdapter:
    """One server push service as a bidirectional one; anything optional is the service's own."""

    def __init__(self, service: ServerPush) -> None:
        self._service = service
        self._names = itertools.count(1)
        self._shows: dict[str, Show] = {}
        """Service loop and close threads; at most one entry, single steps are atomic."""

    def __getattr__(self, name: str) -> Any:
        """Hooks and declarations of the service, looked up where they are."""
        return getattr(self._service, name)

    def start(self) -> None:
        """Load weights and warm up."""
        plainly(self._service.start)

    def stop(self) -> None:
        """Let go of everything; a show that still runs is ended first, as far as it can be."""
        for show in list(self._shows.values()):
            show.end()
            show.join(_STOP_WITHIN_S)
        plainly(self._service.stop)

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """One; raises `ServiceLoadFailed` for an operator who asks for more."""
        if max_sessions is not None and max_sessions > CAPACITY:
            raise ServiceLoadFailed(
                f"A server push service plays one session at a time, not {max_sessions}: leave "
                "--max-sessions-per-worker out or set it to 1, and start more nodes."
            )
        return {"effective_capacity": CAPACITY}

    def has_session(self, session_id: str) -> bool:
        """Whether the show is on."""
        return session_id in self._shows

    def create_session(self, config: dict[str, Any]) -> str:
        """Take the config as the request of the next show; it begins when it's looked at."""
        if self._shows:
            raise RuntimeError("its one session is still there")
        name = f"show-{next(self._names)}"
        self._shows[name] = Show(self._service, dict(config), name)
        return name

    def push_chunk(self, session_id: str, chunk: Chunk) -> None:
        """Hear ``stop``; nothing else can be said to a film."""
        show = self._shows.get(session_id)
        if show is not None and chunk.get("type") == "stop":
            show.end()

    async def pull_chunks(self, session_id: str) -> AsyncIterator[Chunk]:
        """Yield what ``serve`` yields, until it or the show ends."""
        show = self._shows.get(session_id)
        if show is None:
            return
        try:
            async for chunk in show.chunks():
                yield chunk
        finally:
            show.end()

    def close_session(self, session_id: str) -> None:
        """Return when ``serve`` has let go, however long that takes."""
        show = self._shows.get(session_id)
        if show is None:
            return
        show.end()
        show.join()
        self._shows.pop(session_id, None)


class Show:
    """One run of ``serve``: a thread that makes chunks, a bridge to the loop that takes them."""

    def __init__(self, service: ServerPush, request: dict[str, Any], name: str) -> None:
        self._service = service
        self._request = request
        self._thread = threading.Thread(target=self._run, name=f"serve {name}", daemon=True)
        self._lock = threading.Lock()
        """Guards the three below, which either side may touch first."""
        self._ended = False
        self._makers: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        """The serving loop and its task, while they run."""
        self._takers: asyncio.AbstractEventLoop | None = None
        """The service loop, once somebody takes chunks."""
        self._room = asyncio.Semaphore(BRIDGE_CHUNKS)
        """Serving loop only."""
        self._bridge: asyncio.Queue[Chunk | ServiceFault | None] = asyncio.Queue()
        """Service loop only; None is the end. `_room` bounds it."""

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield the chunks; raises `ServiceFault` with the service's words."""
        with self._lock:
            if self._ended:
                return
            self._takers = asyncio.get_running_loop()
        self._thread.start()
        while (item := await self._bridge.get()) is not None and not self._ended:
            if isinstance(item, ServiceFault):
                raise item
            yield item
            with self._lock:
                if self._makers is not None:
                    _post(self._makers[0], self._room.release)

    def end(self) -> None:
        """Let no further chunk cross and ask ``serve`` to end. Any thread, any number of times."""
        with self._lock:
            self._ended = True
            self._pass(None)
            if self._makers is not None:
                loop, task = self._makers
                _post(loop, task.cancel)

    def join(self, within_s: float | None = None) -> None:
        """Wait until nothing of ``serve`` runs any more, for ever or *within_s*."""
        if self._thread.ident is None:
            return  # nobody ever looked
        waited_s = 0.0
        while within_s is None or waited_s < within_s:
            self._thread.join(_ASK_AGAIN_S)
            if not self._thread.is_alive():
                return
            waited_s += _ASK_AGAIN_S
            self.end()

    def _run(self) -> None:
        """The thread; what the service has left on the loop is ended before it returns."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        finally:
            with self._lock:
                self._makers = None
                self._pass(None)

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker: a runner runs tasks
        with self._lock:
            if self._ended:
                return
            self._makers = (asyncio.get_running_loop(), task)
        outcome: ServiceFault | None = None
        try:
            with foreign_code(fault_in("serve")):
                await self._make()
        except ServiceFault as error:
            outcome = error
        except asyncio.CancelledError:
            if not self._ended:  # by nobody of ours
                outcome = fault_in("serve")(RuntimeError("it was cancelled from within"))
        with self._lock:
            self._makers = None
            self._pass(outcome)

    async def _make(self) -> None:
        served: Any = self._service.serve(self._request)
        if inspect.isawaitable(served):  # a coroutine that returns its generator
            served = await served
        try:
            await self._room.acquire()
            async for chunk in served:
                with self._lock:
                    if self._ended:
                        return
                    self._pass(chunk)
                await self._room.acquire()
        finally:
            if (aclose := getattr(served, "aclose", None)) is not None:
                await aclose()

    def _pass(self, item: Chunk | ServiceFault | None) -> None:
        """Put something on the bridge; the caller holds the lock."""
        if self._takers is not None:
            _post(self._takers, self._bridge.put_nowait, item)


def _post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """Have *call* made on another thread's loop; one that has closed has nobody to hear it."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
