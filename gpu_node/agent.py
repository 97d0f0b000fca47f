"""How is a node put together, and how does it drain?

The agent registers, beats, loads the service meanwhile, and then does what the beats' replies say.
It ends when it's asked to (SIGTERM; a Ctrl-C leaves the grace out), when the service can't be
loaded, when a part of it crashes, or when a newer process has taken its name.

Drain: say that no new session is wanted, let running ones finish within the grace, give the rest
back, close the service, say goodbye. The goodbye comes after the last beat, or that beat would
begin a new life.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never

import structlog

from gpu_node import metrics
from gpu_node.assignments import Assignments
from gpu_node.backstage import Backstage, RoomKeeper
from gpu_node.gpu_watch import GpuWatch, Reader
from gpu_node.heartbeat import Heartbeat, Link, NodeLease
from gpu_node.http import NodeHttp, health_of
from gpu_node.load_progress import LoadProgress
from gpu_node.play_teller import PlayTeller
from gpu_node.room import RoomFactory
from gpu_node.runner import Runner
from gpu_node.service_life import ServiceLife
from gpu_node.services.loader import find_service_file
from gpu_node.settings import NodeSettings
from gpu_node.slot_watch import SlotWatch
from shared.clock import Clock
from shared.errors import ServiceLoadFailed, StoreUnavailable
from shared.ids import new_boot_ids
from shared.lifecycle import Background, repeat
from shared.loop_lag import watch_loop
from shared.node_profile import NodeProfile, NodeProgress
from shared.records import (
    Assignment,
    BeatConfirmed,
    BeatReply,
    BeatStale,
    MustRegister,
    Registered,
    RegisterLater,
    RegisterReply,
    Registration,
    Superseded,
)
from shared.states import NodeState
from shared.store import Registry

_log = structlog.get_logger()

EXIT_DONE, EXIT_CRASHED, EXIT_MISTAKE, EXIT_SUPERSEDED = 0, 1, 2, 3

_TICK_S = 0.25
_PROBE_S = 5.0
_LEFTOVERS_S = 5.0
_REGISTER_AGAIN_S = 0.5
_LAST_BEAT_WITHIN_S = 2.0
_CLEAN_UP_S, _HASTY_S = 10.0, 2.0  # of the service; a Ctrl-C means the process's end is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What reaches out of the process; tests hand in a fake venue and a link that they can cut."""

    registry: Registry
    link: Link
    keeper: RoomKeeper
    open_room: RoomFactory
    lease: NodeLease
    """Made first, since rooms ask it before they come back."""
    clock: Clock
    release: str
    on_stuck: Callable[[], None] = lambda: None
    """The event loop stands still; called by the beat thread."""
    gpus: Reader | None = None


class Agent:
    """One node. Everything here runs on the event loop, except where a thread is named."""

    def __init__(self, settings: NodeSettings, parts: AgentParts) -> None:
        self._settings = settings
        self._parts = parts
        self.heartbeat = Heartbeat(
            node_id=settings.node_id,
            link=parts.link,
            lease=parts.lease,
            clock=parts.clock,
            every_s=settings.beat_interval_s,
            on_reply=self._on_reply,
        )
        self.heartbeat.on_stuck = parts.on_stuck
        self.assignments = Assignments(
            parts.registry, self.heartbeat, self._make_runner, parts.clock
        )
        self._background = Background(self._on_crash)
        self._beating: asyncio.Task[None] | None = None
        self._progress = LoadProgress(self.heartbeat, parts.clock, self._tell_progress)
        self.service = ServiceLife(
            settings=settings,
            path=find_service_file(settings.pipe_path),
            heartbeat=self.heartbeat,
            clock=parts.clock,
            progress=self._progress,
        )
        self._profile_offered: NodeProfile | None = None
        """What the latest registration said; it counts for the length of a life."""
        self.service.on_lost = lambda: self._lose_sessions("service_lost")
        self.service.on_serving = self.assignments.regain_service
        self.service.on_grounded = lambda: self._lose_sessions("gpu_lost")
        self._boot_ids = new_boot_ids()
        self._previous_incarnation = 0
        self._one_registration = asyncio.Lock()
        self._registering: asyncio.Future[RegisterReply] | None = None
        """The latest call; never cancelled, for it may count all the same."""
        self._outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(
        self, stop: asyncio.Event, *, in_haste: Callable[[], bool] = lambda: False
    ) -> int:
        """Serve until *stop* is set or something ends the node; return the exit code.

        Args:
            stop: Asks for an orderly end.
            in_haste: Asked once *stop* is set: True leaves the drain grace out.

        Raises:
            StartupError: The registry can't be used, or the metrics port is taken.
            ServiceLoadFailed: The service can't be loaded.
        """
        http, is_hasty = self._start_http(), False
        try:
            await self._parts.registry.check([self._settings.pool])
            self._parts.registry.observe(metrics.script_ran, metrics.redis_failed)
            self._start_parts()
            self._background.start("stop signal", self._until_asked(stop))
            code = await self._outcome
            is_hasty = code == EXIT_DONE and in_haste()
            if code == EXIT_DONE:
                await self._drain(is_hasty)
            return code
        finally:
            await self._close(is_hasty)
            if http is not None:
                http.close()

    def _start_parts(self) -> None:
        start = self._background.start
        self._beating = start("heartbeat", self.heartbeat.run())
        start("registration", self._register(keep=False))
        start("service", self._serve())
        self._loading = start("load progress", self._progress.follow())
        start("hints", self._follow_hints())
        start("media probe", repeat(self._probe_media, name="media probe", every_s=_PROBE_S))
        start("slot watch", SlotWatch(self.heartbeat, self._service_figures).run())
        start("play", PlayTeller(self._parts.registry, self.heartbeat, self._settings.pool).run())
        if self._parts.gpus is not None:
            self._watch_gpus(self._parts.gpus)
        start("tick", repeat(self._tick, name="tick", every_s=_TICK_S))
        start("loop lag", watch_loop(metrics.loop_lagged))
        start("leftovers", repeat(self._renew_service, name="leftovers", every_s=_LEFTOVERS_S))

    def _watch_gpus(self, reader: Reader) -> None:
        watch = GpuWatch(
            reader,
            self.heartbeat,
            self.service,
            start=self._background.start,
            give_up=lambda: self._finish(EXIT_CRASHED),
        )
        reader.start()
        self._background.start("gpu watch", watch.run())

    async def _until_asked(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._finish(EXIT_DONE)

    def _start_http(self) -> NodeHttp | None:
        if not self._settings.metrics_port:
            return None
        http = NodeHttp(
            self._settings.metrics_host,
            self._settings.metrics_port,
            lambda: health_of(self.heartbeat, self._parts.lease, self._settings),
        )
        http.start()
        return http

    # --- the service ----------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Bring the service up; one that can't be loaded ends the node with its sentence."""
        try:
            await self.service.run(on_loaded=self._tell_profile)
        except ServiceLoadFailed as error:
            if not self._outcome.done():
                self._outcome.set_exception(error)

    async def _service_figures(self) -> dict[str, Any]:
        """What the service that is there now measures of itself."""
        figures = await self.service.host.runtime_metrics()
        metrics.service_says(figures)
        return figures

    def _lose_sessions(self, why: str) -> None:
        """The service's process has died, or its GPU: all that it held goes back to the line."""
        self.assignments.lose_service(why)
        if self._loading.done():
            self._loading = self._background.start("load progress", self._progress.follow())

    async def _tell_profile(self) -> None:
        """A profile is told once per life: if loading has changed it, another life begins."""
        if self._profile_offered != self._profile():
            await self._register(keep=True)

    async def _tell_progress(self, incarnation: int, progress: NodeProgress | None) -> None:
        await self._parts.registry.note_progress(
            self._settings.pool, self._settings.node_id, incarnation, progress
        )

    def _make_runner(self, assignment: Assignment) -> Runner:
        return Runner(
            Backstage(
                settings=self._settings,
                registry=self._parts.registry,
                keeper=self._parts.keeper,
                open_room=self._parts.open_room,
                host=self.service.host,
                heartbeat=self.heartbeat,
                lease=self._parts.lease,
                clock=self._parts.clock,
            ),
            assignment,
        )

    # --- the registry ---------------------------------------------------------------------------

    async def _register(self, *, keep: bool) -> None:
        """Begin a life (R11); what an earlier process with this name holds is waited for."""
        async with self._one_registration:
            await self._register_now(next(self._boot_ids), keep=keep)

    async def _register_now(self, boot_id: str, *, keep: bool) -> None:
        while True:
            sent_at_s = self._parts.clock.monotonic_s()
            try:
                self._registering = asyncio.ensure_future(
                    self._parts.registry.register(self._registration(boot_id, keep=keep))
                )
                reply = await asyncio.shield(self._registering)
            except StoreUnavailable as error:
                _log.warning("registration_waits", why=str(error))
                await asyncio.sleep(_REGISTER_AGAIN_S)
                continue
            match reply:
                case Registered(incarnation=incarnation, kept=kept):
                    self._previous_incarnation = incarnation
                    metrics.registered()
                    _log.info("node_registered", incarnation=incarnation, kept=len(kept))
                    self.heartbeat.begin_life(incarnation, sent_at_s, kept)
                    if not keep:
                        self.assignments.keep_only(kept)
                    return  # what else is held here, the beats' replies ask for or close
                case RegisterLater(wait_s=wait_s):
                    _log.info("registration_waits", why="an earlier process", wait_s=wait_s)
                    await asyncio.sleep(min(wait_s, 1.0))
                case Superseded():
                    _log.error("node_superseded", node=self._settings.node_id)
                    self._finish(EXIT_SUPERSEDED)
                    return
                case _:
                    assert_never(reply)

    def _registration(self, boot_id: str, *, keep: bool) -> Registration:
        report = self.heartbeat.report
        self._profile_offered = self._profile()
        return Registration(
            pool=self._settings.pool,
            node_id=self._settings.node_id,
            boot_id=boot_id,
            ttl_s=self._settings.node_ttl_s,
            capacity=report.capacity,
            state=report.state,
            profile=self._profile_offered,
            previous_incarnation=self._previous_incarnation,
            residents=self.heartbeat.residents() if keep else (),
        )

    def _profile(self) -> NodeProfile:
        traits = self.service.traits
        return NodeProfile(
            service=self.service.name,
            mode=traits.mode,
            host=socket.gethostname(),
            pid=os.getpid(),
            release=self._parts.release,
            start_timeout_s=traits.start_timeout_s,
            session_capacity=self.service.session_capacity,
            options=self._settings.told,
        )

    def _on_reply(self, reply: BeatReply) -> None:
        match reply:
            case BeatConfirmed():
                self.assignments.apply(reply)
            case BeatStale():
                _log.warning("beat_stale")
            case MustRegister(keep=keep):
                _log.warning("node_forgotten", keep=keep)
                if not keep:
                    self.assignments.keep_only(frozenset())
                self._background.start("registration", self._register(keep=keep))
            case _:
                assert_never(reply)

    async def _follow_hints(self) -> None:
        async for _ in self._parts.registry.assignment_hints(
            self._settings.pool, self._settings.node_id
        ):
            self.heartbeat.poke()

    # --- the loops ------------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Show that the loop moves, and let sessions notice a lease that ran out."""
        self.heartbeat.see_loop()
        self.assignments.check()
        report, residents = self.heartbeat.report, len(self.heartbeat.residents())
        busy = report.state is NodeState.IDLE and residents > 0
        metrics.node_state(NodeState.BUSY if busy else report.state, report.capacity, residents)

    async def _renew_service(self) -> None:
        """A slot that isn't given back comes back with another child, when that disturbs nobody."""
        if self.assignments.holds_leftovers_alone:
            await self.service.renew()

    async def _probe_media(self) -> None:
        reached = await self._parts.keeper.probe()
        metrics.media_ok(reached)
        if reached != self.heartbeat.report.media_ok:
            _log.warning("media_server", reached=reached)
        self._say(media_ok=reached)

    def _say(self, **changes: object) -> None:
        self.heartbeat.say(replace(self.heartbeat.report, **changes))  # type: ignore[arg-type]

    # --- the end --------------------------------------------------------------------------------

    async def _drain(self, is_hasty: bool) -> None:
        grace_s = 0.0 if is_hasty else self._settings.drain_grace_s
        _log.info("node_drains", grace_s=grace_s)
        self._say(draining=True)
        await self.assignments.drain(grace_s, clean_up_s=_HASTY_S if is_hasty else _CLEAN_UP_S)

    async def _close(self, is_hasty: bool) -> None:
        self._outcome.cancel()
        await self.assignments.aclose()
        await self.service.aclose(_HASTY_S if is_hasty else _CLEAN_UP_S)
        if self._parts.gpus is not None:
            self._parts.gpus.close()
        self.heartbeat.close()
        incarnation = self.heartbeat.incarnation or await self._late_incarnation()
        if self._beating is not None:  # a beat after the goodbye would begin a new life
            await asyncio.wait({self._beating}, timeout=_LAST_BEAT_WITHIN_S)
        await self._background.aclose()
        if incarnation:
            with contextlib.suppress(StoreUnavailable):  # then its lease runs out instead
                await self._parts.registry.retire(
                    self._settings.pool, self._settings.node_id, incarnation
                )
        await self._parts.keeper.aclose()
        await self._parts.registry.aclose()
        _log.info("node_stopped")

    async def _late_incarnation(self) -> int:
        """Return the life that a registration under way may still have begun, else 0."""
        if self._registering is None:
            return 0
        await asyncio.wait({self._registering}, timeout=_LAST_BEAT_WITHIN_S)
        done = self._registering.done() and self._registering.exception() is None
        reply = self._registering.result() if done else None
        return reply.incarnation if isinstance(reply, Registered) else 0

    def _finish(self, code: int) -> None:
        if not self._outcome.done():
            self._outcome.set_result(code)

    def _on_crash(self, _task: str, _error: BaseException) -> None:
        """A part ended that must not; it was logged, and a supervisor starts the node anew."""
        self._finish(EXIT_CRASHED)
