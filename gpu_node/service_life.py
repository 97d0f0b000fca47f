"""How does the model service of a node come to life, and how does it end?

    check the file → load it → start it → ask how many sessions it keeps → warm it up → offer slots

Capacity comes before the warm-up, since a service may make its pools only when it's asked, as the
reference's do. What fails on the way is told in the service's own words and, if another try may
help, tried again after a pause that doubles; the last failure ends the node. The steps are told to
the registry while they last, the state and the capacity go into the beats.

A service in a child may die. Then the node offers nothing until all that the child held has gone
back to the line, so that nobody is counted as a mate of a later child; meanwhile the next one comes
up. What keeps dying leaves the node in ``error``, with another try every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from gpu_node.load_progress import LoadProgress
from gpu_node.services.contract import Capacity, ServiceTraits
from gpu_node.services.devices import settle
from gpu_node.services.host import ServiceHost
from gpu_node.services.hosting import Host
from gpu_node.services.last_words import LastWords
from gpu_node.services.loader import load
from gpu_node.services.validation import validated
from gpu_node.settings import NodeSettings, service_environment, visible_gpus
from gpu_node.warm_up import warm_up, warm_up_of
from gpu_node.worker.deaths import Deaths
from gpu_node.worker.host import ChildHost, ChildPlan
from shared.clock import Clock
from shared.errors import ServiceLoadFailed, ServiceLost, ServiceStartFailed
from shared.lifecycle import in_thread
from shared.states import NodeState

_log = structlog.get_logger()

_CLOSE_WITHIN_S = 10.0
_SAY_AFTER_S = 1.0
"""A wait that takes longer is told of."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0
_AFTER_ERROR_S = 300.0
_ASK_AGAIN_S = 0.1
_GIB = 1024**3
MOST_ROOMS = 10
"""One event loop paces the frames of so many rooms and no more; more rooms need more nodes."""


class ServiceLife:
    """The one service of a node. Every method is called on the agent's loop."""

    def __init__(
        self,
        *,
        settings: NodeSettings,
        path: Path,
        heartbeat: Heartbeat,
        clock: Clock,
        progress: LoadProgress,
    ) -> None:
        self._settings = settings
        self._path = path
        self._heartbeat = heartbeat
        self._clock = clock
        self._progress = progress
        self._host: Host | None = None
        self._session_capacity: dict[str, Any] | None = None
        self._closing = self._renewing = False
        self._grounded = ""
        """Why nothing may be offered, whatever the service says; empty: it may."""
        self._released = asyncio.Event()
        self._released.set()
        self._running: asyncio.Task[None] | None = None
        self._lost_sessions: frozenset[str] = frozenset()
        """Those that were here when the last child died."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the child that held the service is gone, before any session hears of it."""
        self.on_serving: Callable[[], None] = lambda: None
        """Called just before slots are offered."""
        self.on_grounded: Callable[[], None] = lambda: None
        """Called when the node may not serve any more, before the service is ended."""

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._path.name

    @property
    def traits(self) -> ServiceTraits:
        """What the service declares of itself; the defaults before it is loaded."""
        return self._host.traits if self._host else ServiceTraits()

    @property
    def session_capacity(self) -> dict[str, Any] | None:
        """How the service came to its number of sessions; None before, or if it doesn't say."""
        return self._session_capacity

    @property
    def host(self) -> Host:
        """The service; asked for only once it has capacity."""
        if self._host is None:
            raise RuntimeError("a session was assigned to a node without capacity")
        return self._host

    async def run(self, *, on_loaded: Callable[[], Awaitable[None]]) -> None:
        """Bring the service up, offer its slots, and do so again when a child has died.

        Args:
            on_loaded: Called before the slots are offered: the node's profile may have changed.

        Raises:
            ServiceLoadFailed: It can't be brought up.
        """
        self._running = asyncio.current_task()
        deaths, has_served = Deaths(), False
        while True:
            try:
                await self._come_up(on_loaded)
            except ServiceLoadFailed:
                if not has_served:
                    raise
                await asyncio.sleep(_AFTER_ERROR_S)  # it could once, so it may again
                continue
            has_served = True
            up_since_s = self._clock.monotonic_s()
            await self.host.lost()
            if not self._renewing:
                served_s = self._clock.monotonic_s() - up_since_s
                deaths.note(served_s=served_s, sessions=self._lost_sessions)
            await self._after_death(deaths)
            self._renewing = False

    async def renew(self) -> None:
        """Begin anew with a fresh child, which holds none of what the old one wouldn't let go."""
        if isinstance(self._host, ChildHost) and self._host.pid is not None:
            _log.warning("worker_renewed", why="no session but such as it won't close")
            self._renewing = True
            self._say(NodeState.LOADING, capacity=0)
            await self._host.aclose()

    async def ground(self, why: str) -> None:
        """Serve nobody until `release`, because of *why*: all sessions go elsewhere."""
        self._grounded = why
        self._released.clear()
        self._progress.fail(why)
        self._say(NodeState.ERROR, capacity=0)
        self.on_grounded()
        if isinstance(self._host, ChildHost) and self._host.pid is not None:
            self._renewing = True  # no fault of its own
            await self._host.aclose()

    def release(self) -> bool:
        """Serve again; False if the service is in this process: it can't get the GPU back."""
        self._grounded = ""
        self._released.set()
        return self._settings.worker_mode == "process" or self._host is None

    async def _after_death(self, deaths: Deaths) -> None:
        """Wait until the next child may be tried."""
        pause_s = deaths.pause_s
        if deaths.is_too_many:
            sentence = f"The process of {self.name} died three times in a row."
            self._on_failure(ServiceStartFailed(_with_last_lines(self.host, sentence)), attempt=1)
            pause_s = _AFTER_ERROR_S
        await self.host.aclose()
        await asyncio.sleep(pause_s)

    async def _come_up(self, on_loaded: Callable[[], Awaitable[None]]) -> None:
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, self._settings.start_attempts + 1):
            await self._released.wait()
            try:
                await self._bring_up(attempt, on_loaded)
            except ServiceLoadFailed as error:
                self._on_failure(error, attempt)
                if not self._may_try_again(error, attempt):
                    raise
            else:
                return
            await self._let_go()
            self._host = None  # or what it holds would lie beside what the next attempt loads
            await in_thread("service-settle", settle)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _may_try_again(self, error: ServiceLoadFailed, attempt: int) -> bool:
        return isinstance(error, ServiceStartFailed) and attempt < self._settings.start_attempts

    def _on_failure(self, error: ServiceLoadFailed, attempt: int) -> None:
        _log.error("service_load_failed", error=str(error), attempt=attempt)
        _log.debug("service_load_trace", exc_info=error)
        self._progress.fail(str(error))
        self._say(NodeState.ERROR, capacity=0)

    async def _bring_up(self, attempt: int, on_loaded: Callable[[], Awaitable[None]]) -> None:
        started_s = self._clock.monotonic_s()
        self._progress.begin(attempt)
        self._say(NodeState.LOADING, capacity=0)
        with LastWords() as words:
            self._progress.last_line = lambda: words.line
            capacity = await self._step_by_step()
        capacity = _capped(capacity)
        self._session_capacity = capacity.profile
        seconds = self._clock.monotonic_s() - started_s
        metrics.service_loaded(seconds)
        await on_loaded()
        _log.info(
            "service_ready",
            service=self.name,
            mode=self.traits.mode,
            capacity=capacity.sessions,
            seconds=round(seconds, 2),
        )
        await self._until_all_returned()
        if self._grounded:
            raise ServiceStartFailed(self._grounded)
        self._progress.finish()
        self.on_serving()
        self._say(NodeState.IDLE, capacity=capacity.sessions)

    async def _step_by_step(self) -> Capacity:
        self._progress.reach("validating")
        await in_thread("service-validation", self._validate)
        self._progress.reach("loading")
        host = self._host = await self._make_host()
        self._progress.reach("starting")
        await host.start()
        try:
            capacity = await host.capacity(self._settings.capacity_limit)
            if plan := warm_up_of(host.traits):
                self._progress.reach("warming_up")
                await warm_up(host, plan)
            if isinstance(host, ChildHost):
                host.serve()
        except ServiceLost as loss:
            raise ServiceStartFailed(_with_last_lines(host, str(loss))) from loss
        return capacity

    def _validate(self) -> None:
        for remark in validated(self._path, self._settings.validation):
            _log.warning("service_remark", service=self.name, line=remark.line, text=remark.text)

    async def _make_host(self) -> Host:
        gpus = visible_gpus()
        if self._settings.worker_mode == "process":
            child = ChildHost(self._plan(gpus), self._on_child_lost)
            self._progress.last_line = lambda: (child.last_lines or ("",))[-1]
            return child
        loaded = await in_thread(
            "service-load", lambda: load(self._path, gpu_num=len(gpus or [""]), gpu_ids=gpus)
        )
        return ServiceHost(loaded)

    def _plan(self, gpus: list[str] | None) -> ChildPlan:
        settings = self._settings
        return ChildPlan(
            path=self._path,
            gpu_ids=None if gpus is None else tuple(gpus),
            env=service_environment(),
            log=settings.data_dir / "logs" / f"worker-{settings.node_id}.log",
            memory_limit_bytes=int(settings.worker_memory_limit_gib * _GIB),
            stuck_after_s=settings.worker_stuck_after_s,
        )

    def _on_child_lost(self) -> None:
        """The capacity is 0 before the first session goes back: so the registry counts right."""
        if self._closing:
            return
        residents = self._heartbeat.residents()
        self._lost_sessions = frozenset(resident.session_id for resident in residents)
        if not self._renewing:
            metrics.worker_died()
        self._say(NodeState.ERROR if self._grounded else NodeState.LOADING, capacity=0)
        self.on_lost()

    async def _until_all_returned(self) -> None:
        """Wait for the sessions of a child that died; without one there are none."""
        while self._heartbeat.residents():  # noqa: ASYNC110 - the registry has to answer for each
            await asyncio.sleep(_ASK_AGAIN_S)

    async def aclose(self, within_s: float = _CLOSE_WITHIN_S) -> None:
        """Stop the service for good, as far as it can be stopped in time."""
        self._closing = True
        if self._running is not None and self._running.cancel():  # or a next child might begin
            await asyncio.wait({self._running}, timeout=within_s)
        await self._let_go(within_s)

    async def _let_go(self, within_s: float = _CLOSE_WITHIN_S) -> None:
        if self._host is None:
            return
        closing = asyncio.create_task(self._host.aclose(), name="close service")
        await asyncio.wait({closing}, timeout=min(_SAY_AFTER_S, within_s))
        if not closing.done():
            _log.info("waits_for_service", service=self.name, call="stop", at_most_s=within_s)
            await asyncio.wait({closing}, timeout=within_s - _SAY_AFTER_S)
        if not closing.done() and isinstance(self._host, ChildHost):
            self._host.end_now()
            await asyncio.wait({closing}, timeout=_SAY_AFTER_S)

    def _say(self, state: NodeState, *, capacity: int) -> None:
        self._heartbeat.say(replace(self._heartbeat.report, state=state, capacity=capacity))


def _capped(capacity: Capacity) -> Capacity:
    if capacity.sessions <= MOST_ROOMS:
        return capacity
    _log.warning(
        "capacity_capped",
        service_keeps=capacity.sessions,
        rooms=MOST_ROOMS,
        advice="raise --num-workers for more",
    )
    return replace(capacity, sessions=MOST_ROOMS)


def _with_last_lines(host: Host, sentence: str) -> str:
    return host.with_last_lines(sentence) if isinstance(host, ChildHost) else sentence
