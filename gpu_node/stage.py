"""How does one session's worker get into its room, and stay there whatever happens to it?

A `Room` is one join and may be lost; a `Stage` is the place that outlives it. It joins with a fresh
identity per attempt, comes back after a loss while the node lease holds, and gives up only when
that fails for a while. What is said while nobody can be told (not joined, or silent) waits here in
order.

Audible means: joined, and the node lease holds. It is asked before each frame and each status;
while it's false nothing leaves (R2).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from gpu_node import metrics
from gpu_node.backstage import Backstage
from gpu_node.claim import Claim
from gpu_node.room import AssetStream, Frame, LinkFacts, Lost, Pcm, Room, RoomEvents, RoomRequest
from shared.errors import RoomsUnavailable
from shared.ids import WorkerIdentity
from shared.lifecycle import Background
from shared.records import Presence
from shared.room_status import Status, StatusWriter

_log = structlog.get_logger()

REJOIN_WITHIN_S = 30.0
_SETTLED_S = 5.0
"""A join that lasted so long ends a series of losses."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
_KEPT_STATUSES = 256
_PUT_OUT = frozenset((Lost.ROOM_DELETED, Lost.REMOVED, Lost.SUPERSEDED, Lost.DUPLICATE))
"""Somebody wanted the worker out: the kill list may say more in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvents:
    """What a stage tells its runner, on the event loop."""

    on_control: Callable[[str, bytes, str], None]
    on_arrival: Callable[[str], None]
    on_first_frame: Callable[[], None]
    """The first real frame of a join has left."""
    on_outranked: Callable[[int], Awaitable[None]]
    """A worker of this higher epoch is in the room; returns when the session's own is above it, if
    the session is this node's (R5)."""
    on_given_up: Callable[[str], None]
    """The room can't be had again; why."""
    on_asset: Callable[[str, AssetStream], None]
    on_sound: Callable[[Pcm], None]


class Stage:
    """One session's place in its room."""

    def __init__(
        self,
        backstage: Backstage,
        claim: Claim,
        *,
        controller: str,
        fps: int,
        status: StatusWriter,
        events: StageEvents,
    ) -> None:
        self._backstage = backstage
        self._claim = claim
        self._controller = controller
        self._fps = fps
        self._status = status
        self._events = events
        assignment = claim.assignment
        self._log = _log.bind(session=assignment.session_id, epoch=assignment.epoch)
        self._tasks = Background(self._on_crash)
        self._room: Room | None = None
        self._attempt = 0
        self._lost_attempt = 0
        """The latest join that was lost; it may be lost before `Room.join` has returned."""
        self._outranked_by = 0
        """The highest epoch of a worker that was met in the room."""
        self._joined = False
        self._left = self._ending = False
        self._returning: asyncio.Task[None] | None = None
        self._silent = False
        self._silent_since_s = 0.0
        self._was_silent_s = 0.0
        """Earlier silences together."""
        self._heard_at_s = backstage.clock.monotonic_s()
        """When the worker was last in the room and audible."""
        self._audible = asyncio.Event()
        self._controller_here = asyncio.Event()
        self._joined_at_s = 0.0
        self._trouble_since_s: float | None = None
        self._runs = False
        self._unplayed_since_s: float | None = None
        """Since when the session runs without a room, until a frame leaves (again)."""
        self.lost_s = 0.0
        """Seconds of play that losses of the room have taken; the present one comes on top."""
        self._losses = 0
        self._outbox: deque[Status] = deque(maxlen=_KEPT_STATUSES)
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self.first_frame_id: int | None = None
        """The first real frame of the present join; None before it."""

    async def enter(self, within_s: float) -> None:
        """Join, with a fresh identity for each try; raises `RoomsUnavailable` after *within_s*."""
        if self._attempt == 0:
            self._tasks.start("stage speaker", self._speak())
        await self._until_lease()
        deadline_s = self._backstage.clock.monotonic_s() + within_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._join_once()
            except RoomsUnavailable as error:
                metrics.joined("failed")
                self._log.warning("join_failed", attempt=self._attempt, why=str(error))
                if self._backstage.clock.monotonic_s() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def until_controller(self) -> None:
        """Return when the controller is in the room."""
        await self._controller_here.wait()

    @property
    def silent_s(self) -> float:
        """For how long nothing could leave, in all, because the node lease didn't hold."""
        if not self._silent:
            return self._was_silent_s
        return self._was_silent_s + self._backstage.clock.monotonic_s() - self._silent_since_s

    @property
    def unheard_s(self) -> float:
        """For how long by now nothing could leave, whatever the reason."""
        return self._backstage.clock.monotonic_s() - self._heard_at_s

    @property
    def dark_s(self) -> float:
        """For how long by now the session runs without a room; 0 if it has one."""
        if self._unplayed_since_s is None:
            return 0.0
        return self._backstage.clock.monotonic_s() - self._unplayed_since_s

    def begin(self) -> None:
        """The session runs: from now on time without a room is taken from its user."""
        self._runs = True
        if not self._joined:
            self._unplayed_since_s = self._backstage.clock.monotonic_s()

    async def until_audible(self) -> None:
        """Return when the worker is in the room and the node lease holds."""
        while not self.check():
            self._audible.clear()
            await self._audible.wait()

    def check(self) -> bool:
        """Ask the lease and apply its answer to the room; True if frames may leave now."""
        silent = not self._backstage.lease.holds(self._claim.assignment)
        if silent != self._silent:
            now_s = self._backstage.clock.monotonic_s()
            self._was_silent_s = self.silent_s
            self._silent, self._silent_since_s = silent, now_s
            if silent:
                metrics.fell_silent()
            self._log.info("fell_silent" if silent else "audible_again")
            if self._room is not None:
                self._room.mute(silent)
        if self._joined and not silent:
            self._heard_at_s = self._backstage.clock.monotonic_s()
            self._audible.set()
            return True
        return False

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Play one frame now, if audible. The first one of each join is announced."""
        if self._room is None or not self.check():
            return
        self._room.capture(frame, frame_id)
        if self.first_frame_id is None:
            self.first_frame_id = frame_id
            if self._unplayed_since_s is not None:
                self.lost_s += self._backstage.clock.monotonic_s() - self._unplayed_since_s
                self._unplayed_since_s = None
            self.say(self._status.first_frame(frame_id))
            self._events.on_first_frame()

    async def fit_video(self, width: int, height: int) -> None:
        """Have a video track for frames of this size; raises `RoomsUnavailable`."""
        if self._room is not None and self.check():
            await self._room.fit_video(width, height)

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        """Have an audio track for this format; raises `RoomsUnavailable`."""
        if self._room is not None and self.check():
            await self._room.fit_audio(sample_rate_hz, channels)

    async def until_watched(self) -> None:
        """Return when somebody sees the video of the present join."""
        if self._room is not None:
            await self._room.until_watched()

    async def tell_figures(self, body: Status) -> None:
        """Say *body* on tf.metrics if that's possible now; else it's out of date anyway."""
        if self._room is not None and self.check():
            await self._room.send_metrics(body)

    async def link(self) -> LinkFacts | None:
        """What the connection carries; None while there is none."""
        return await self._room.link() if self._room is not None and self._joined else None

    @property
    def statuses_waiting(self) -> int:
        """How much is still to be said."""
        return len(self._outbox)

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """Queue sound, if audible."""
        if self._room is not None and self.check():
            await self._room.capture_audio(pcm, sample_rate_hz)

    def say(self, body: Status) -> None:
        """Say *body* on tf.status as soon as it may be heard; the oldest goes when too much
        waits.
        """
        self._outbox.append(body)
        self._emptied.clear()
        self._filled.set()

    async def flush(self, within_s: float) -> None:
        """Return when all was said, or after *within_s*; at once if nobody can be told."""
        if not self.check():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._emptied.wait()

    def stay_out(self) -> None:
        """The session ends: a room that is lost now, or was just lost, isn't joined again."""
        self._ending = True
        if self._returning is not None:
            self._returning.cancel()

    def mute(self) -> None:
        """Be silent for good: what follows is only the leaving."""
        self._left = True
        self._joined = False
        if self._room is not None:
            self._room.mute(True)

    async def leave(self) -> None:
        """Leave the room; bounded, and harmless when done twice."""
        self.mute()
        await self._tasks.aclose()
        room, self._room = self._room, None
        if room is not None:
            await room.leave()
        self._see(Presence(connected=False, controller=False, participants=0))

    async def _until_lease(self) -> None:
        """Wait until the node lease holds: a worker without it has no business in the room (R1)."""
        while not self._backstage.lease.holds(self._claim.assignment):
            self._trouble_since_s = None  # the silence isn't the room's fault
            await asyncio.sleep(_FIRST_PAUSE_S)

    async def _join_once(self) -> None:
        await self._drop_room()
        if self._outranked_by > self._claim.assignment.epoch:
            await self._events.on_outranked(self._outranked_by)
        self._attempt += 1
        attempt, assignment = self._attempt, self._claim.assignment
        identity = WorkerIdentity(
            node_id=self._backstage.settings.node_id, epoch=assignment.epoch, attempt=attempt
        )
        await self._backstage.keeper.ensure(assignment.session_id, assignment.epoch)
        room = self._backstage.open_room(
            RoomRequest(
                session_id=assignment.session_id,
                identity=identity,
                controller=self._controller,
                fps=self._fps,
                events=RoomEvents(
                    on_control=self._events.on_control,
                    on_presence=partial(self._on_presence, attempt),
                    on_lost=partial(self._on_lost, attempt),
                    on_outranked=self._on_outranked,
                    on_arrival=self._events.on_arrival,
                    on_asset=self._events.on_asset,
                    on_sound=self._events.on_sound,
                ),
                hear_hz=self._backstage.host.traits.hear_hz,
            )
        )
        self._room = room
        room.mute(self._silent)
        await room.join()
        if self._lost_attempt == attempt:
            raise RoomsUnavailable(why="lost while joining")
        self._joined = True
        self._joined_at_s = self._backstage.clock.monotonic_s()
        self.first_frame_id = None
        metrics.joined("joined")
        self._log.info("room_joined", attempt=attempt)
        self._see(room.presence())
        self.check()

    async def _drop_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            await room.leave()

    def _on_presence(self, attempt: int, presence: Presence) -> None:
        if attempt == self._attempt and not self._left:
            self._see(presence)

    def _see(self, presence: Presence) -> None:
        if presence.controller:
            self._controller_here.set()
        else:
            self._controller_here.clear()
        self._backstage.heartbeat.see(self._claim.assignment, presence)

    def _on_outranked(self, epoch: int) -> None:
        self._outranked_by = max(self._outranked_by, epoch)

    def _on_lost(self, attempt: int, reason: str) -> None:
        if attempt != self._attempt or self._left:
            return
        self._log.warning("room_lost", attempt=attempt, reason=reason)
        self._lost_attempt = attempt
        if not self._joined:
            return  # the join under way sees it
        self._joined = False
        self._see(Presence(connected=False, controller=False, participants=0))
        now_s = self._backstage.clock.monotonic_s()
        if self._runs and self._unplayed_since_s is None:
            self._unplayed_since_s = now_s
        if self._trouble_since_s is None or now_s - self._joined_at_s > _SETTLED_S:
            self._trouble_since_s, self._losses = now_s, 0
        self._losses += 1
        if not self._ending:
            self._returning = self._tasks.start("stage return", self._come_back(reason))

    async def _come_back(self, reason: str) -> None:
        """Join again after a loss. Several losses in a row share one time limit."""
        self._backstage.heartbeat.poke()
        if reason in _PUT_OUT or self._losses > 1:
            await asyncio.sleep(min(_FIRST_PAUSE_S * 2**self._losses, 2 * _LONGEST_PAUSE_S))
        await self._until_lease()
        now_s = self._backstage.clock.monotonic_s()
        left_s = REJOIN_WITHIN_S - (now_s - (self._trouble_since_s or now_s))
        if left_s <= 0:
            self._events.on_given_up(f"the room was lost {self._losses} times in a row")
            return
        try:
            await self.enter(left_s)
        except RoomsUnavailable as error:
            self._events.on_given_up(str(error))

    async def _speak(self) -> None:
        """Say what waits, in order, one at a time, only while audible."""
        while True:
            await self._filled.wait()
            while self._outbox:
                await self.until_audible()
                if self._room is not None and self._outbox:
                    await self._room.send_status(self._outbox.popleft())
            self._filled.clear()
            self._emptied.set()

    def _on_crash(self, task: str, _error: BaseException) -> None:
        self._events.on_given_up(f"the {task} failed")
