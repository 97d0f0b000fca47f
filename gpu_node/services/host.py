"""Where does the service live: this process or a child?

In this process, with threads of its own, so that nothing of it runs on the agent's loop: one
*service loop* thread for ``create_session``, ``push_chunk`` and ``pull_chunks`` (services share
asyncio objects across the three), and a fresh thread for each call that may block (``start``,
``stop``, capacity, ``close_session``).

How chunks cross is told in `gpu_node.services.stream`, what optional hooks may say in
`gpu_node.services.hooks`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from gpu_node.lease.turns import Turns, turns_for
from gpu_node.services.contract import (
    Bidirectional,
    Capacity,
    Chunk,
    ServiceTraits,
    SizesItself,
)
from gpu_node.services.devices import settle
from gpu_node.services.hooks import Hooks
from gpu_node.services.loader import LoadedService, explained
from gpu_node.services.sizing import numbers_of, plain_profile, told_capacity
from gpu_node.services.stream import ChunkStream, fault_in
from shared.errors import InvalidConfig, ServiceFault, ServiceLoadFailed
from shared.lifecycle import call_foreign, in_thread, plainly

T = TypeVar("T")
_log = structlog.get_logger()

_PUMP_STOP_S = 5.0
"""How long a cancelled ``pull_chunks`` may take before ``close_session`` is called all the same."""
_LOOP_STOP_S = 2.0
_LEASE_KEPT_S = 30.0
"""How long a closing session may keep the execution lease: as long as the node waits for its
clean-up before it counts the slot as lost. The others can't wait for ever."""
DEFAULT_HEAR_HZ = 16_000
"""What speech models take."""
HEAR_RATES_HZ = range(8_000, 48_000 + 1)
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
        self._hooks = Hooks(loaded.service)
        self._turns: Turns | None = None
        """Set by `start`, for a service may know only then how quick its model is. Touched on the
        service loop only; None: sessions need no execution lease."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="service-loop", daemon=True)
        self._streams: dict[str, ChunkStream] = {}
        self._hear_hz = 0
        self._closed = False

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._loaded.name

    @property
    def traits(self) -> ServiceTraits:
        """What the service declares of itself; what makes no sense counts as not declared."""
        limit = getattr(self._service, "start_timeout_s", 0.0)
        warm_up = getattr(self._service, "warm_up", None)
        return ServiceTraits(
            mode=self._loaded.mode,
            start_timeout_s=float(limit) if isinstance(limit, int | float) and limit > 0 else 0.0,
            waits_for_control=self._turns is not None and self._turns.need_control,
            hear_hz=self._hear_hz,
            warm_up=warm_up if isinstance(warm_up, bool | dict) else None,
        )

    @property
    def start_timeout_s(self) -> float:
        """The service's own limit for starting a pipeline session; 0 without one."""
        return self.traits.start_timeout_s

    async def start(self) -> None:
        """Start the service loop and the service; raises `ServiceLoadFailed`."""
        self._thread.start()
        name = self._loaded.name
        await _foreign_thread(
            "service-start",
            self._service.start,
            explained(self._loaded.path, f"start() in {name} failed"),
        )
        self._turns = turns_for(self._service, name)
        if await self._asked(self._hooks.hears, False):
            self._hear_hz = _rate_hz(getattr(self._service, "session_audio_rate_hz", None))
        await in_thread("service-settle", settle)

    async def capacity(self, wanted: int | None) -> Capacity:
        """Return how many sessions the service keeps; *wanted* only lowers what it says itself.

        Raises:
            ServiceLoadFailed: None fit, with the service's own numbers; or the hook broke.
        """
        service = self._service
        if not isinstance(service, SizesItself):
            return Capacity(sessions=wanted or 1, profile=await self._capacity_profile({}))
        name = self._loaded.name
        answer: object = await _foreign_thread(
            "service-capacity",
            lambda: service.configure_session_capacity(wanted),
            explained(self._loaded.path, f"configure_session_capacity() in {name} failed"),
        )
        told = told_capacity(name, answer)
        profile = await self._capacity_profile(told.profile or {})
        if told.sessions == 0:
            raise ServiceLoadFailed(f"{name} has no room for a session{numbers_of(profile)}.")
        return Capacity(
            sessions=min(told.sessions, wanted) if wanted else told.sessions, profile=profile
        )

    async def _capacity_profile(self, told: dict[str, Any]) -> dict[str, Any] | None:
        """What ``session_capacity_profile`` says, else what the service told with the number."""
        return plain_profile(await self._asked(self._hooks.capacity_profile, None) or told or None)

    async def create_session(self, config: dict[str, Any]) -> str:
        """Make a pipeline session and return its id; raises `InvalidConfig` for a bad config."""
        created: object = await self._on_service_loop(
            self._call(lambda: self._create(config), _refusal)
        )
        if not isinstance(created, str) or not created:
            raise ServiceFault("create_session() must return the session's id as a string.")
        return created

    def _create(self, config: dict[str, Any]) -> object:
        created: object = plainly(lambda: self._service.create_session(config))
        if self._turns is not None and isinstance(created, str):
            try:
                self._turns.enter(created, config.get("control_idle_timeout"))
            except ValueError as error:
                raise ServiceFault(f"create_session() returned an id in use: {error}.") from error
        return created

    async def push(self, pipeline_session_id: str, chunk: Chunk) -> None:
        """Hand one control message to the service; a late one goes nowhere."""

        def push() -> None:
            if self._hooks.knows(pipeline_session_id):
                if self._turns is not None:
                    self._turns.hear(pipeline_session_id, chunk)
                plainly(lambda: self._service.push_chunk(pipeline_session_id, chunk))

        if not self._closed:
            await self._on_service_loop(self._call(push, fault_in("push_chunk")))

    def chunks(self, pipeline_session_id: str) -> ChunkStream:
        """Return the session's chunks, once per session; the service begins at once."""
        stream = ChunkStream(self._service, pipeline_session_id, self._loop, self._turns)
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
        with self._closing_turns(pipeline_session_id):
            if stream is not None:
                await stream.stop(_PUMP_STOP_S)
            await _foreign_thread(
                "service-close",
                lambda: self._service.close_session(pipeline_session_id),
                fault_in("close_session"),
            )
            if stream is not None:
                await stream.ended.wait()

    @contextmanager
    def _closing_turns(self, pipeline_session_id: str) -> Iterator[None]:
        """Keep the lease from others while the block cleans up, well or not, but not for ever."""
        if self._turns is None:
            yield
            return
        tell, turns = self._loop.call_soon_threadsafe, self._turns
        tell(turns.leave, pipeline_session_id)
        limit = asyncio.get_running_loop().call_later(
            _LEASE_KEPT_S, lambda: tell(turns.give_up_on, pipeline_session_id)
        )
        try:
            yield
        finally:
            limit.cancel()
            if not self._loop.is_closed():
                tell(turns.left, pipeline_session_id)

    async def runtime_metrics(self, pipeline_session_id: str | None = None) -> dict[str, Any]:
        """Return what the service measures, of one session with its id; empty without the hook.

        Beside that of the whole service stands its ``lease``, if its sessions take turns.
        """

        def ask() -> dict[str, Any]:
            figures = self._hooks.runtime_metrics(pipeline_session_id)
            if self._turns is None or pipeline_session_id is not None:
                return figures
            return {**figures, "lease": self._turns.report()}

        return await self._asked(ask, {})

    async def track_frames(self, pipeline_session_id: str) -> bool:
        """Whether the service wants `report_frames` for this session."""
        return await self._asked(lambda: self._hooks.track_frames(pipeline_session_id), False)

    async def report_frames(
        self,
        pipeline_session_id: str,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_s: float,
    ) -> bool:
        """Tell the service what became of its frames; whether it took notice.

        Args:
            pipeline_session_id: Whose frames.
            event: ``published`` or ``abandoned``.
            frames_delta: How many since the last report.
            sequence: Rises by one with each report of the session.
            observed_s: Monotonic time.
        """
        return await self._asked(
            lambda: self._hooks.report_frames(
                pipeline_session_id, event, frames_delta, sequence, observed_s
            ),
            False,
        )

    async def lost(self) -> str:
        """Never returns: this process would be gone with the service."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def touch(self, on_turn: Callable[[], None]) -> None:
        """Any thread: have *on_turn* called on the service loop, which shows that it turns."""
        self._loop.call_soon_threadsafe(on_turn)

    async def aclose(self) -> None:
        """Stop the service and its loop; its faults are only logged."""
        if self._closed:
            return
        self._closed = True
        if self._turns is not None:
            self._loop.call_soon_threadsafe(self._turns.close)
        for stream in self._streams.values():
            await stream.stop(_LOOP_STOP_S)
        try:
            await _foreign_thread("service-stop", self._service.stop, fault_in("stop"))
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
                lambda: plainly(
                    lambda: self._service.push_chunk(pipeline_session_id, {"type": "stop"})
                ),
                fault_in("push_chunk"),
            )
        except ServiceFault as error:
            _log.debug("stop_not_taken", error=str(error))

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _asked(self, ask: Callable[[], T], default: T) -> T:
        """Ask a hook on the service loop; a host that is closed has none any more."""
        if self._closed:
            return default
        return await self._on_service_loop(self._call(ask, fault_in("a hook")))

    async def _call(
        self, call: Callable[[], T], explain: Callable[[BaseException], ServiceFault]
    ) -> T:
        return call_foreign(lambda: plainly(call), explain)

    async def _on_service_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


def _rate_hz(declared: object) -> int:
    """Return the rate at which a service wants to hear; what makes no sense counts as not said."""
    sensible = isinstance(declared, int) and declared in HEAR_RATES_HZ
    return int(str(declared)) if sensible else DEFAULT_HEAR_HZ


def _refusal(error: BaseException) -> ServiceFault:
    """A ValueError from ``create_session`` says that the config is wrong, not the service."""
    if isinstance(error, ValueError):
        return InvalidConfig(f"The service refused the config: {str(error)[:_WORDS_KEPT]}")
    return fault_in("create_session")(error)


async def _foreign_thread(
    name: str, call: Callable[[], T], explain: Callable[[BaseException], ServiceFault]
) -> T:
    return await in_thread(name, lambda: call_foreign(lambda: plainly(call), explain))
