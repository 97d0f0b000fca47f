"""How does the model service of a node come to life, and how does it end?

    check the file → load it → start it → ask how many sessions it keeps → warm it up → offer slots

Capacity comes before the warm-up, since a service may make its pools only when it's asked, as the
reference's do. What fails on the way is told in the service's own words and, if another try may
help, tried again after a pause that doubles; the last failure ends the node. The steps are told to
the registry while they last, the state and the capacity go into the beats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import structlog

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from gpu_node.load_progress import LoadProgress
from gpu_node.services.contract import Capacity, ServiceTraits
from gpu_node.services.host import ServiceHost
from gpu_node.services.last_words import LastWords
from gpu_node.services.loader import load
from gpu_node.settings import NodeSettings, visible_gpus
from gpu_node.warm_up import warm_up, warm_up_of
from shared.clock import Clock
from shared.errors import ServiceLoadFailed, ServiceStartFailed
from shared.lifecycle import in_thread
from shared.states import NodeState

_log = structlog.get_logger()

_CLOSE_WITHIN_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0


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
        self._host: ServiceHost | None = None

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._path.name

    @property
    def traits(self) -> ServiceTraits:
        """What the service declares of itself; the defaults before it is loaded."""
        return self._host.traits if self._host else ServiceTraits()

    @property
    def host(self) -> ServiceHost:
        """The service; asked for only once it has capacity."""
        if self._host is None:
            raise RuntimeError("a session was assigned to a node without capacity")
        return self._host

    async def run(self, *, on_loaded: Callable[[], Awaitable[None]]) -> None:
        """Bring the service up and offer its slots; raises `ServiceLoadFailed`.

        Args:
            on_loaded: Called before the slots are offered: the node's profile may have changed.
        """
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, self._settings.start_attempts + 1):
            try:
                await self._bring_up(attempt, on_loaded)
            except ServiceLoadFailed as error:
                self._on_failure(error, attempt)
                if not self._may_try_again(error, attempt):
                    raise
            else:
                return
            await self.aclose()
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
        self._progress.finish()
        self._say(NodeState.IDLE, capacity=capacity.sessions)

    async def _step_by_step(self) -> Capacity:
        self._progress.reach("loading")
        gpus = visible_gpus()
        loaded = await in_thread(
            "service-load", lambda: load(self._path, gpu_num=len(gpus or [""]), gpu_ids=gpus)
        )
        self._progress.reach("starting")
        host = self._host = ServiceHost(loaded)
        await host.start()
        capacity = await host.capacity(self._settings.capacity_limit)
        if plan := warm_up_of(host.traits):
            self._progress.reach("warming_up")
            await warm_up(host, plan)
        return capacity

    async def aclose(self) -> None:
        """Stop the service, as far as it can be stopped in time."""
        if self._host is not None:
            closing = asyncio.create_task(self._host.aclose(), name="close service")
            await asyncio.wait({closing}, timeout=_CLOSE_WITHIN_S)

    def _say(self, state: NodeState, *, capacity: int) -> None:
        self._heartbeat.say(replace(self._heartbeat.report, state=state, capacity=capacity))
