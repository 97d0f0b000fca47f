"""How does a test watch and play a room without a media server?

`FakeVenue` is a room factory for runners. A test enters a room as controller or viewer, says
things, and looks at what it received::

    venue = FakeVenue()
    runner = Runner(rooms=venue, ...)
    alice = venue.stage(session_id).enter("alice")          # the controller, by default
    alice.say({"type": "control_state", "controls": ["w"]})
    await wait_until(lambda: alice.frames, "alice sees a frame")

It keeps the same contract as the LiveKit room (tests/contract/test_room_contract.py), older workers
and reloads included. Callbacks come through the event loop, one turn later, as they do there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gpu_node.room import AssetStream, Frame, LinkFacts, Lost, Pcm, RoomRequest
from gpu_node.roster import Occupant, Roster
from shared.errors import RoomsUnavailable
from shared.records import Presence
from shared.room_protocol import CONTROL_TOPIC
from shared.room_status import encode_status
from shared.rooms.tokens import Role


@dataclass(slots=True, kw_only=True)
class SeenFrame:
    """One frame as somebody in the room received it."""

    worker: str
    frame_id: int
    image: Frame


_FILES = itertools.count(1)
_PIECE_BYTES = 15_000


@dataclass(slots=True, kw_only=True)
class FakeFile:
    """A file on its way."""

    stream_id: str
    data: bytes
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared by a test to hold it half-way."""
    breaks: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        self.goes_on.set()

    def stream(self, name: str, size_bytes: int, attributes: dict[str, str]) -> AssetStream:
        """How it looks to the worker."""
        return AssetStream(
            stream_id=self.stream_id,
            name=name,
            mime_type="image/png",
            size_bytes=size_bytes or None,
            attributes=attributes,
            chunks=self._pieces(),
            close=self._close,
        )

    async def _pieces(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.data), _PIECE_BYTES):
            await self.goes_on.wait()
            if self.breaks:
                raise ConnectionError("the sender has gone")
            yield self.data[start : start + _PIECE_BYTES]

    def _close(self) -> None:
        self.closed = True


@dataclass(slots=True, kw_only=True)
class FakePerson:
    """A controller or viewer in a room; what it received is in its lists."""

    stage: FakeStage
    sid: str
    identity: str
    role: Role | None
    frames: list[SeenFrame] = field(default_factory=list)
    statuses: list[dict[str, object]] = field(default_factory=list)
    audio: list[tuple[int, Pcm]] = field(default_factory=list)
    metrics: list[dict[str, object]] = field(default_factory=list)

    def say(self, body: object, topic: str = CONTROL_TOPIC, *, nameless: bool = False) -> None:
        """Send JSON (or raw bytes) to the workers; a viewer's token lets nothing through."""
        if self.role is Role.VIEWER:
            return
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        for room in self.stage.rooms():
            room.hear("" if nameless else self.identity, payload, topic)

    def send_file(
        self,
        data: bytes,
        name: str = "picture.png",
        *,
        told: int | None = None,
        attributes: dict[str, str] | None = None,
    ) -> FakeFile:
        """Send a file on ``tf.asset``; with *told* its size is announced as something else."""
        size_bytes = len(data) if told is None else told
        file = FakeFile(stream_id=f"file-{next(_FILES)}", data=data)
        for room in self.stage.rooms():
            room.receive_file(self.identity, file.stream(name, size_bytes, attributes or {}))
        return file

    async def speak(self, pcm: Pcm, rate_hz: int) -> None:
        """Say something; only a worker that wants to hear it does."""
        for room in self.stage.rooms():
            room.hear_sound(self.identity, pcm, rate_hz)

    def of_type(self, type_: str) -> list[dict[str, object]]:
        """Statuses of one type, in order of arrival."""
        return [body for body in self.statuses if body.get("type") == type_]

    def leave(self) -> None:
        """Close the connection."""
        self.stage.remove_sid(self.sid)


class FakeStage:
    """One room: it outlives the workers that come and go."""

    def __init__(self, venue: FakeVenue, session_id: str) -> None:
        self._venue = venue
        self.session_id = session_id
        self.people: dict[str, FakePerson] = {}
        self.fitted: list[tuple[str, int, int]] = []
        """Formats that tracks were asked for."""
        self.workers: dict[str, FakeRoom] = {}
        self.link: LinkFacts | None = None
        self.visited = asyncio.Event()

    def enter(self, identity: str, role: Role | None = Role.CONTROLLER) -> FakePerson:
        """Let somebody in. Entering again under the same identity is a reload: see `reload`."""
        person = FakePerson(stage=self, sid=self._venue.new_sid(), identity=identity, role=role)
        self.people[person.sid] = person
        self.visited.set()
        for room in self.rooms():
            room.see_enter(Occupant(sid=person.sid, identity=identity, role=role))
        return person

    def reload(self, person: FakePerson) -> FakePerson:
        """Come back as LiveKit shows it: the new connection first, the late `left` after it."""
        newer = self.enter(person.identity, person.role)
        self.remove_sid(person.sid)
        return newer

    def remove_sid(self, sid: str) -> None:
        """End one person's connection."""
        if self.people.pop(sid, None) is not None:
            for room in self.rooms():
                room.see_leave(sid)

    def rooms(self) -> list[FakeRoom]:
        """The workers' rooms, joined now."""
        return list(self.workers.values())

    def delete(self) -> None:
        """Delete the room as an API call does."""
        for room in self.rooms():
            room.lose(Lost.ROOM_DELETED)
        self.people.clear()

    def cut(self, reason: Lost = Lost.CONNECTION) -> None:
        """End all workers' connections with a reason; people stay."""
        for room in self.rooms():
            room.lose(reason)


class FakeVenue:
    """A room factory and everything that stands behind it."""

    def __init__(self) -> None:
        self._stages: dict[str, FakeStage] = {}
        self._numbers = itertools.count(1)
        self.reachable = True
        self.opened = asyncio.Event()
        """Cleared by a test to hold every join."""
        self.opened.set()
        self.requests: list[RoomRequest] = []

    def __call__(self, request: RoomRequest) -> FakeRoom:
        self.requests.append(request)
        return FakeRoom(self, request)

    def stage(self, session_id: str) -> FakeStage:
        """Return the room of a session, made when first asked for."""
        return self._stages.setdefault(session_id, FakeStage(self, session_id))

    def known(self, session_id: str) -> FakeStage | None:
        """Return the room of a session if there is one."""
        return self._stages.get(session_id)

    def rooms(self) -> list[FakeStage]:
        """All rooms that were ever asked for and not forgotten."""
        return list(self._stages.values())

    def forget_empty(self) -> None:
        """Forget the rooms in which nobody is."""
        for name, stage in list(self._stages.items()):
            if not stage.workers and not stage.people:
                del self._stages[name]

    def new_sid(self) -> str:
        """Return a fresh connection id."""
        return f"PA_{next(self._numbers)}"


class FakeRoom:
    """One worker's room without a media server; see `gpu_node.room.Room`."""

    def __init__(self, venue: FakeVenue, request: RoomRequest) -> None:
        self._venue = venue
        self._request = request
        self._stage = venue.stage(request.session_id)
        self._sid = venue.new_sid()
        self._roster = Roster(request.identity, request.controller)
        self._here = False
        self._leaving = False
        self._silent = False
        self._told: Presence | None = None

    @property
    def occupant(self) -> Occupant:
        """How other workers see this one."""
        identity = self._request.identity
        return Occupant(
            sid=self._sid, identity=str(identity), role=Role.WORKER, order=identity.order
        )

    async def join(self) -> None:
        """Enter, unless the venue is out."""
        await self._venue.opened.wait()
        if not self._venue.reachable:
            raise RoomsUnavailable(why="the fake venue is out")
        self._here = True
        for person in self._stage.people.values():
            self._roster.enter(Occupant(sid=person.sid, identity=person.identity, role=person.role))
            self._soon(self._request.events.on_arrival, person.identity)
        for other in self._stage.rooms():
            self._roster.enter(other.occupant)
            other.see_enter(self.occupant)
        self._stage.workers[self._sid] = self
        self._tell_presence()
        self._judge()

    def presence(self) -> Presence:
        """Who is there."""
        return self._roster.presence(connected=self._here)

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Show the frame to everybody in the room."""
        if not self._here or self._silent:
            return
        for person in self._stage.people.values():
            person.frames.append(
                SeenFrame(
                    worker=str(self._request.identity), frame_id=frame_id, image=np.copy(frame)
                )
            )

    async def fit_video(self, width: int, height: int) -> None:
        """Note the size of the track."""
        self._stage.fitted.append(("video", width, height))

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        """Note the format of the track."""
        self._stage.fitted.append(("audio", sample_rate_hz, channels))

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """Let everybody in the room hear it, at once."""
        if not self._here or self._silent:
            return
        for person in self._stage.people.values():
            person.audio.append((sample_rate_hz, np.copy(pcm)))

    def mute(self, silent: bool) -> None:
        """Stop or resume whatever leaves."""
        self._silent = silent

    async def send_status(self, body: Mapping[str, object]) -> None:
        """Say it to everybody in the room."""
        if not self._here or self._silent:
            return
        said = json.loads(encode_status(body))
        for person in self._stage.people.values():
            person.statuses.append(said)

    async def send_metrics(self, body: Mapping[str, object]) -> None:
        """Let everybody in the room have the figures."""
        if not self._here or self._silent:
            return
        said = json.loads(encode_status(body))
        for person in self._stage.people.values():
            person.metrics.append(said)

    async def until_watched(self) -> None:
        """Whoever was ever in the room has watched."""
        await self._stage.visited.wait()

    async def link(self) -> LinkFacts | None:
        """A connection that carries as much as it's told to."""
        return self._stage.link if self._here else None

    async def leave(self) -> None:
        """Leave; again is fine."""
        self._leaving = True
        self._depart()

    def hear(self, sender: str, payload: bytes, topic: str) -> None:
        """A data message arrives."""
        self._soon(self._request.events.on_control, sender, payload, topic)

    def receive_file(self, sender: str, stream: AssetStream) -> None:
        """A file begins to arrive."""
        self._soon(self._request.events.on_asset, sender, stream)

    def hear_sound(self, speaker: str, pcm: Pcm, rate_hz: int) -> None:
        """Somebody speaks; the media server resamples, here by leaving samples out."""
        wanted_hz = self._request.hear_hz
        if wanted_hz and speaker == self._request.controller:
            self._soon(self._request.events.on_sound, pcm[:: rate_hz // wanted_hz])

    def see_enter(self, newcomer: Occupant) -> None:
        """Somebody enters; a worker among them changes who may play."""
        self._roster.enter(newcomer)
        if newcomer.role is Role.WORKER:
            self._judge()
            return
        self._tell_presence()
        self._soon(self._request.events.on_arrival, newcomer.identity)

    def see_leave(self, sid: str) -> None:
        """Somebody's connection ended."""
        self._roster.leave(sid)
        self._tell_presence()

    def lose(self, reason: Lost) -> None:
        """Be put out of the room."""
        if not self._here or self._leaving:
            return
        self._depart()
        self._soon(self._request.events.on_lost, reason)

    def _depart(self) -> None:
        self._here = False
        self._stage.workers.pop(self._sid, None)
        for other in self._stage.rooms():
            other.see_leave(self._sid)

    def _judge(self) -> None:
        if self._roster.superseded():
            if (epoch := self._roster.outranked_by()) is not None:
                self._soon(self._request.events.on_outranked, epoch)
            self.lose(Lost.SUPERSEDED)
            return
        older = self._roster.older_workers()
        for other in self._stage.rooms():
            if other.occupant.identity in older:
                other.lose(Lost.REMOVED)

    def _tell_presence(self) -> None:
        if self._here and self.presence() != self._told:
            self._told = self.presence()
            self._soon(self._request.events.on_presence, self._told)

    def _soon(self, callback: object, *arguments: object) -> None:
        assert callable(callback)
        asyncio.get_running_loop().call_soon(callback, *arguments)
