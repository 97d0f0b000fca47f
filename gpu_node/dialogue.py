"""How do the controller's messages reach the pipeline session, and what does a newcomer hear?

`ControlGate` decides; this does what it decided. Chunks for the service go through a bounded queue
in order, on the service's own loop, so a slow service delays controls but never the room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import assert_never

import structlog

from gpu_node import metrics
from gpu_node.assets import Assets
from gpu_node.backstage import Backstage
from gpu_node.control import Apply, ControlGate, Delivered, Ignore, Reply, Stop
from gpu_node.hearing import Hearing
from gpu_node.lease.turns import ACTIVITY
from gpu_node.reactions import Reactions
from gpu_node.room import AssetStream, Pcm
from gpu_node.stage import Stage
from shared.errors import ServiceFault, ServiceLost
from shared.lifecycle import Background
from shared.room_status import Status, StatusWriter

_log = structlog.get_logger()

_PENDING = 256


class Dialogue:
    """What is said between one session's controller and its pipeline session."""

    def __init__(
        self,
        backstage: Backstage,
        *,
        controller: str,
        status: StatusWriter,
        reactions: Reactions,
        on_stop: Callable[[], None],
        on_delivered: Callable[[int], None],
    ) -> None:
        self._backstage = backstage
        self._controller = controller
        self._status = status
        self._reactions = reactions
        self._on_stop = on_stop
        self._on_delivered = on_delivered
        self._log = _log.bind(session=status.session_id)
        self._gate = ControlGate(
            controller=controller,
            status=status,
            max_bytes=backstage.settings.max_data_message_bytes,
        )
        self._pending: asyncio.Queue[Mapping[str, object]] = asyncio.Queue(_PENDING)
        self._assets = Assets(
            controller=controller,
            status=status,
            clock=backstage.clock,
            say=self._say,
            push=self._push_aside,
        )
        self._hearing = Hearing(backstage.host.traits.hear_hz, self._push_aside)
        self._pipeline_session_id = ""
        self._tasks = Background()
        self._running = False
        self._closed = False
        self.stage: Stage | None = None
        """Set once, before the stage is entered; each needs the other."""

    def open(self, pipeline_session_id: str) -> None:
        """The pipeline session runs: say so, and let it have what was kept for it."""
        self._running = self._assets.running = True
        self._pipeline_session_id = pipeline_session_id
        self._say_where_it_stands()
        for kept in self._gate.open():
            self._to_service(kept.chunk)
        self._tasks.start("controls", self._push())
        if self._backstage.host.traits.hear_hz:
            self._hearing.open()

    async def aclose(self) -> None:
        """Take no more messages and hand none on."""
        self._closed = True
        await self._assets.aclose()
        await self._hearing.aclose()
        await self._tasks.aclose()

    def on_control(self, sender: str, payload: bytes, topic: str) -> None:
        """A data message came into the room."""
        if self.stage is None or self._closed:
            return
        self._gate.silent = not self.stage.check()
        for decision in self._gate.receive(sender, payload, topic):
            match decision:
                case Apply(chunk=chunk):
                    metrics.control("applied")
                    if chunk.get("type") in ACTIVITY:
                        self._reactions.control()
                    self._to_service(chunk)
                case Stop():
                    metrics.control("applied")
                    self._on_stop()
                case Delivered(published_frames=frames):
                    metrics.control("applied")
                    self._on_delivered(frames)
                case Reply(status=status):
                    self.stage.say(status)
                case Ignore(why=why):
                    metrics.control("ignored")
                    self._log.debug("control_ignored", why=why)
                case _:
                    assert_never(decision)

    def on_asset(self, sender: str, stream: AssetStream) -> None:
        """A file begins to come into the room."""
        if self.stage is None or self._closed:
            stream.close()
            return
        self._assets.receive(sender, stream, silent=not self.stage.check())

    def on_sound(self, pcm: Pcm) -> None:
        """The controller said something."""
        if self.stage is not None and not self._closed and self.stage.check():
            self._hearing.take(pcm)

    @property
    def controls_waiting(self) -> int:
        """How many messages the service hasn't taken yet."""
        return self._pending.qsize()

    def on_arrival(self, identity: str) -> None:
        """Somebody can be told things from now on, perhaps after a reload."""
        if identity == self._controller:
            self._gate.renew()
        if self._running and not self._closed:
            self._say_where_it_stands()

    def _say_where_it_stands(self) -> None:
        self._say(self._status.running(self._backstage.settings.node_id))
        if self.stage is not None and self.stage.first_frame_id is not None:
            self._say(self._status.first_frame(self.stage.first_frame_id))

    def _say(self, status: Status) -> None:
        if self.stage is not None:
            self.stage.say(status)

    def _to_service(self, chunk: Mapping[str, object]) -> None:
        if self._pending.full():  # the service doesn't keep up: what is oldest matters least
            self._pending.get_nowait()
        self._pending.put_nowait(chunk)

    async def _push(self) -> None:
        while True:
            chunk = await self._pending.get()
            try:
                await self._backstage.host.push(self._pipeline_session_id, dict(chunk))
            except ServiceLost:
                return  # the session goes back to the line
            except ServiceFault as error:
                self._log.warning("control_failed", error=str(error))
                self._say(self._status.error(str(error), error.code))

    async def _push_aside(self, chunk: Mapping[str, object]) -> None:
        await self._backstage.host.push(self._pipeline_session_id, dict(chunk))
