"""How does the model service of a node come to life, and how does it end?

Load the file, start it, ask how many sessions it keeps, and only then offer slots. What the
service says of itself on the way (its state, its capacity) goes into the beats; what ends the node
is raised to the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import structlog

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import load
from gpu_node.settings import NodeSettings, visible_gpus
from shared.clock import Clock
from shared.errors import ServiceLoadFailed
from shared.lifecycle import in_thread
from shared.states import NodeState

_log = structlog.get_logger()

_CLOSE_WITHIN_S = 10.0


class ServiceLife:
    """The one service of a node. Every method is called on the agent's loop."""

    def __init__(
        self, *, settings: NodeSettings, path: Path, heartbeat: Heartbeat, clock: Clock
    ) -> None:
        self._settings = settings
        self._path = path
        self._heartbeat = heartbeat
        self._clock = clock
        self._host: ServiceHost | None = None

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._path.name

    @property
    def start_timeout_s(self) -> float:
        """The service's own limit for starting a pipeline session; 0 without one, or before."""
        return self._host.start_timeout_s if self._host else 0.0

    @property
    def host(self) -> ServiceHost:
        """The service; asked for only once it has capacity."""
        if self._host is None:
            raise RuntimeError("a session was assigned to a node without capacity")
        return self._host

    async def run(self, *, on_loaded: Callable[[], Awaitable[None]]) -> None:
        """Bring the service up and offer its slots; raises `ServiceLoadFailed`.

        Args:
            on_loaded: Called before the slots are offered, if the node's profile has changed.
        """
        try:
            await self._bring_up(on_loaded)
        except ServiceLoadFailed as error:
            _log.error("service_load_failed", error=str(error))
            _log.debug("service_load_trace", exc_info=error)
            self._say(NodeState.ERROR, capacity=0)
            raise

    async def _bring_up(self, on_loaded: Callable[[], Awaitable[None]]) -> None:
        started_s = self._clock.monotonic_s()
        gpus = visible_gpus()
        loaded = await in_thread(
            "service-load", lambda: load(self._path, gpu_num=len(gpus or [""]), gpu_ids=gpus)
        )
        host = ServiceHost(loaded)
        self._host = host
        await host.start()
        capacity = await host.capacity(self._settings.capacity_limit)
        seconds = self._clock.monotonic_s() - started_s
        metrics.service_loaded(seconds)
        if host.start_timeout_s:  # the profile is told once per life, so this begins another one
            await on_loaded()
        _log.info(
            "service_ready",
            service=host.name,
            capacity=capacity.sessions,
            seconds=round(seconds, 2),
        )
        self._say(NodeState.IDLE, capacity=capacity.sessions)

    async def aclose(self) -> None:
        """Stop the service, as far as it can be stopped in time."""
        if self._host is not None:
            closing = asyncio.create_task(self._host.aclose(), name="close service")
            await asyncio.wait({closing}, timeout=_CLOSE_WITHIN_S)

    def _say(self, state: NodeState, *, capacity: int) -> None:
        self._heartbeat.say(replace(self._heartbeat.report, state=state, capacity=capacity))
