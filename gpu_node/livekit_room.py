"""How does LiveKit give a runner its room?

What the SDK and the server force on us (each measured):

- ``Room.connect`` must never be cancelled: the native side goes on, kills the process later and may
  leave a ghost. So it runs as a task of its own under our deadline, and is disconnected when it
  completes after all.
- News of participants without tracks comes up to three seconds late, and their data has no sender
  until then. While the controller isn't known, missing people are announced (`RoomAdmin.announce`).
- The SDK's error texts and log lines may hold whole tokens.

R1: for its whole life a worker removes older workers, at the join and whenever one appears; it
leaves when a newer one does, and when its connection breaks while its lease doesn't hold.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import structlog
from livekit import rtc

from gpu_node.livekit_data import LiveKitData
from gpu_node.livekit_ears import LiveKitEars
from gpu_node.livekit_tracks import LiveKitTracks
from gpu_node.room import Frame, LinkFacts, Lost, Pcm, RoomRequest
from gpu_node.roster import Occupant, Roster, occupant
from shared.errors import RoomsUnavailable
from shared.records import Presence
from shared.room_protocol import CONTROL_TOPIC
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import Role, RoomTokens, redact

JOIN_TIMEOUT_S = 8.0
SIGNAL_TIMEOUT_S = 3.0
LEAVE_TIMEOUT_S = 5.0
SEEK_INTERVAL_S = 0.25
SEEK_PAUSE_S = 0.05
LEFT_GRACE_S = 0.1
REMOVAL_PAUSES_S = (0.0, 0.5, 2.0)
SETTLE_S = 1.0
"""A process that ends sooner than this after a disconnect aborts in a few of a hundred cases."""

_LOST_BY = {
    rtc.DisconnectReason.DUPLICATE_IDENTITY: Lost.DUPLICATE,
    rtc.DisconnectReason.SERVER_SHUTDOWN: Lost.SERVER_SHUTDOWN,
    rtc.DisconnectReason.PARTICIPANT_REMOVED: Lost.REMOVED,
    rtc.DisconnectReason.ROOM_DELETED: Lost.ROOM_DELETED,
    rtc.DisconnectReason.ROOM_CLOSED: Lost.ROOM_DELETED,
}

log = structlog.get_logger()


class LiveKitRooms:
    """The room factory of one node."""

    def __init__(
        self,
        *,
        url: str,
        tokens: RoomTokens,
        admin: RoomAdmin,
        lease_holds: Callable[[], bool],
        join_timeout_s: float = JOIN_TIMEOUT_S,
    ) -> None:
        self.url = url
        self.tokens = tokens
        self.admin = admin
        self.lease_holds = lease_holds
        self.join_timeout_s = join_timeout_s
        self._kept: set[asyncio.Task[Any]] = set()
        self.last_parting_s: float | None = None  # by the monotonic clock
        logging.getLogger("livekit").addFilter(_without_tokens)

    def __call__(self, request: RoomRequest) -> LiveKitRoom:
        return LiveKitRoom(self, request)

    def keep(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run *work* beside the rooms; a task that nobody holds may vanish in mid-air."""
        task = asyncio.get_running_loop().create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    def note_parting(self) -> None:
        """A connection ended just now."""
        self.last_parting_s = time.monotonic()

    async def aclose(self, settle_s: float = SETTLE_S) -> None:
        """Wait until late connects are ended and the process may end; bounded."""
        if self._kept:
            await asyncio.wait(set(self._kept), timeout=LEAVE_TIMEOUT_S)
        if self.last_parting_s is not None:
            rest_s = self.last_parting_s + settle_s - time.monotonic()
            await asyncio.sleep(max(0.0, rest_s))


class LiveKitRoom:
    """One worker's connection to one room; see `gpu_node.room.Room`."""

    def __init__(self, rooms: LiveKitRooms, request: RoomRequest) -> None:
        self._rooms = rooms
        self._request = request
        self._events = request.events
        self._roster = Roster(request.identity, request.controller)
        self._rtc: rtc.Room | None = None
        self._tracks: LiveKitTracks | None = None
        self._data: LiveKitData | None = None
        self._ears: LiveKitEars | None = None
        self._connecting: asyncio.Task[Any] | None = None
        self._connected = False
        self._joined = False
        self._leaving = False
        self._silent = False
        self._lost: Lost | None = None
        self._told: Presence | None = None
        self._parting: asyncio.Task[Any] | None = None
        self._seeking: asyncio.Task[Any] | None = None
        self._nameless = asyncio.Event()
        self._log = log.bind(session_id=request.session_id, epoch=request.identity.epoch)

    async def join(self) -> None:
        room = self._rtc = rtc.Room()
        tracks = self._tracks = LiveKitTracks(room, self._plays, self._rooms.keep)
        self._data = LiveKitData(
            room, plays=self._plays, keep=self._rooms.keep, on_asset=self._events.on_asset
        )
        if self._request.hear_hz:
            self._ears = LiveKitEars(
                room, request=self._request, admin=self._rooms.admin, keep=self._rooms.keep
            )
        self._listen(room)
        ready = False
        try:
            await self._bounded_connect(room)
            await tracks.publish_video(self._request.fps)
            if self._lost is not None:
                raise RoomsUnavailable(why=f"put out while joining: {self._lost}")
            ready = True
        finally:
            # A cancelled runner included: nobody else would end this connection.
            if not ready:
                self._part()
        self._meet(room)

    def presence(self) -> Presence:
        return self._roster.presence(connected=self._connected)

    def capture(self, frame: Frame, frame_id: int) -> None:
        if self._tracks is not None:
            self._tracks.capture(frame, frame_id)

    async def fit_video(self, width: int, height: int) -> None:
        if self._tracks is not None:
            await self._tracks.fit_video(width, height)

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        if self._tracks is not None:
            await self._tracks.fit_audio(sample_rate_hz, channels)

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        if self._tracks is not None:
            await self._tracks.capture_audio(pcm, sample_rate_hz)

    def mute(self, silent: bool) -> None:
        """R2: let nothing leave while *silent*."""
        self._silent = silent
        if not silent:
            return
        if self._tracks is not None:
            self._tracks.clear_audio()
        if self._joined and not self._connected:
            self._lose(Lost.LEASE_LAPSED)

    async def send_status(self, body: Mapping[str, object]) -> None:
        if self._data is not None:
            await self._data.send_status(body)

    async def send_metrics(self, body: Mapping[str, object]) -> None:
        if self._data is not None:
            await self._data.send_metrics(body)

    async def until_watched(self) -> None:
        if self._tracks is not None:
            await self._tracks.until_watched()

    async def link(self) -> LinkFacts | None:
        return None if self._tracks is None else await self._tracks.link()

    async def leave(self) -> None:
        self._leaving = True
        if self._rtc is not None:
            await asyncio.wait({self._part()}, timeout=LEAVE_TIMEOUT_S)

    def _plays(self) -> bool:
        return self._joined and not self._silent and self._lost is None and not self._leaving

    # -- joining and leaving

    async def _bounded_connect(self, room: rtc.Room) -> None:
        token = self._rooms.tokens.worker(
            self._request.session_id, self._request.identity, hears=self._ears is not None
        )
        options = rtc.RoomOptions(auto_subscribe=False, connect_timeout=SIGNAL_TIMEOUT_S)
        connecting = self._connecting = self._rooms.keep(
            _connect_fault(room.connect(self._rooms.url, token, options))
        )
        await asyncio.wait({connecting}, timeout=self._rooms.join_timeout_s)
        if not connecting.done():
            raise RoomsUnavailable(why=f"no connection within {self._rooms.join_timeout_s:g} s")
        fault = connecting.result()
        if fault is not None:
            raise RoomsUnavailable(why=fault)
        self._connected = True

    def _meet(self, room: rtc.Room) -> None:
        """Take note of who is there already; nothing is told about them by events."""
        self._joined = True
        self._note_present(room)
        self._seeking = self._rooms.keep(self._seek_controller())
        self._tell_presence()
        if self._ears is not None:
            self._ears.look_around()
        for present in room.remote_participants.values():
            self._arrive(present)
        self._judge()

    def _part(self) -> asyncio.Task[Any]:
        """End the connection, once, whoever asks for it first."""
        if self._parting is None:
            self._connected = False
            self._parting = self._rooms.keep(self._disconnect())
        return self._parting

    async def _disconnect(self) -> None:
        if self._seeking is not None:
            self._seeking.cancel()
        if self._ears is not None:
            self._ears.close()
        if self._connecting is not None:
            await asyncio.wait({self._connecting})
        if self._tracks is not None:
            await self._tracks.settle()
        if self._rtc is not None:
            await self._rtc.disconnect()
            self._rooms.note_parting()
        if self._tracks is not None:
            await self._tracks.aclose()

    def _lose(self, reason: Lost) -> None:
        """The room is lost to us; said once, and not while we are leaving anyway."""
        if self._lost is not None or self._leaving:
            return
        self._lost = reason
        if self._joined:
            self._part()
            self._log.info("room_lost", reason=str(reason))
            self._events.on_lost(reason)

    # -- what the SDK tells

    def _listen(self, room: rtc.Room) -> None:
        room.on("participant_connected", self._on_entered)
        room.on("participant_active", self._arrive)
        room.on("participant_disconnected", self._on_left)
        room.on("data_received", self._on_data)
        room.on("reconnecting", self._on_reconnecting)
        room.on("reconnected", self._on_reconnected)
        room.on("disconnected", self._on_disconnected)

    def _on_entered(self, who: rtc.RemoteParticipant) -> None:
        newcomer = _occupant(who)
        self._roster.enter(newcomer)
        if newcomer.role is Role.WORKER:
            self._judge()
        self._tell_presence()

    def _arrive(self, who: rtc.RemoteParticipant) -> None:
        if self._joined and _occupant(who).role is not Role.WORKER:
            self._events.on_arrival(who.identity)

    def _on_left(self, who: rtc.RemoteParticipant) -> None:
        # A reload is told as leaving and entering in one breath: nobody shall see the gap.
        asyncio.get_running_loop().call_later(LEFT_GRACE_S, self._forget, who.sid)

    def _forget(self, sid: str) -> None:
        if self._rtc is None or not self._connected:
            return  # "gone" may mean us: whoever really left is missing in `_note_present`
        # After a reconnect of ours people are told as gone and there again under their old sids.
        if all(who.sid != sid for who in self._rtc.remote_participants.values()):
            self._roster.leave(sid)
            self._tell_presence()

    def _on_data(self, packet: rtc.DataPacket) -> None:
        sender = "" if packet.participant is None else packet.participant.identity
        topic = packet.topic or ""
        if not sender and topic == CONTROL_TOPIC:
            self._nameless.set()
        self._events.on_control(sender, packet.data, topic)

    def _on_reconnecting(self) -> None:
        self._connected = False
        if self._silent or not self._rooms.lease_holds():
            self._lose(Lost.LEASE_LAPSED)
        self._tell_presence()

    def _on_reconnected(self) -> None:
        if self._rtc is None or self._parting is not None:
            return
        self._connected = True
        self._note_present(self._rtc)
        self._tell_presence()
        self._judge()

    def _on_disconnected(self, reason: rtc.DisconnectReason.ValueType) -> None:
        self._connected = False
        self._lose(_LOST_BY.get(reason, Lost.CONNECTION))

    # -- who is there

    def _note_present(self, room: rtc.Room) -> None:
        self._roster.replace(_occupant(who) for who in room.remote_participants.values())

    def _tell_presence(self) -> None:
        nobody_asks = not self._joined or self._leaving or self._lost is not None
        if not nobody_asks and self.presence() != self._told:
            self._told = self.presence()
            self._events.on_presence(self._told)

    def _judge(self) -> None:
        """Compare the workers in the room: leave to a newer one, remove older ones."""
        if not self._joined:
            return
        if self._roster.superseded():
            if (epoch := self._roster.outranked_by()) is not None:
                self._events.on_outranked(epoch)
            self._lose(Lost.SUPERSEDED)
            return
        for identity in self._roster.older_workers():
            self._rooms.keep(self._remove(identity))

    async def _remove(self, identity: str) -> None:
        for pause_s in REMOVAL_PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                await self._rooms.admin.remove(self._request.session_id, identity)
            except RoomsUnavailable as fault:
                self._log.warning("older_worker_not_removed", why=str(fault))
            else:
                self._log.info("older_worker_removed", worker=identity)
                return

    async def _seek_controller(self) -> None:
        """Look for people that nothing was told about, while that matters."""
        while True:
            if self._nameless.is_set() or not self.presence().controller:
                self._nameless.clear()
                await self._announce_unknown()
                await asyncio.sleep(SEEK_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(SEEK_INTERVAL_S):
                    await self._nameless.wait()

    async def _announce_unknown(self) -> None:
        session_id, admin = self._request.session_id, self._rooms.admin
        try:
            for one in await admin.participants(session_id):
                if one.role is not Role.WORKER and not self._roster.knows(one.sid):
                    await admin.announce(session_id, one.identity)
        except RoomsUnavailable as fault:
            self._log.debug("room_not_listed", why=str(fault))


def _occupant(who: rtc.RemoteParticipant) -> Occupant:
    return occupant(who.sid, who.identity, who.attributes)


async def _connect_fault(connect: Awaitable[None]) -> str | None:
    """Return what went wrong as a text without tokens.

    As a value, so that a connect that nobody waits for any more doesn't complain; and not chained
    to the SDK's own error, for a traceback would print the whole token.
    """
    try:
        await connect
    except rtc.ConnectError as fault:
        return redact(fault.message)
    return None


def _without_tokens(record: logging.LogRecord) -> bool:
    """Filter of the SDK's log lines: they may quote whole URLs with their tokens."""
    record.msg, record.args = redact(record.getMessage()), None
    return True
