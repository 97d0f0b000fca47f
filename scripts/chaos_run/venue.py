"""Which rooms do the nodes of a chaos run play in, and who saw what there?

A stand-in for LiveKit that all processes share: rooms with the manners of `FakeVenue`, reached by
workers over one TCP connection per join (`tests.support.remote_room` is the other end), and the
room service over HTTP, as replicas and nodes call it. Each frame that a worker sends is noted with
the sender's clock: that's how two publishers of one session are found out.

A worker whose process stands still while it is put out comes back once with its old token, as
LiveKit's SDK does (R1), and is out for good half a second after its next frame. So here only a
node's own silence keeps a zombie quiet. A process that runs hears at once that it was put out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from dataclasses import dataclass

from aiohttp import web
from google.protobuf.message import Message
from livekit.protocol import models
from livekit.protocol import room as messages

from gpu_node.room import Lost, RoomEvents, RoomRequest
from shared.errors import RoomsUnavailable
from shared.ids import WorkerIdentity, room_of, session_of_room
from shared.records import Presence
from shared.rooms.tokens import ATTEMPT_ATTRIBUTE, EPOCH_ATTRIBUTE, ROLE_ATTRIBUTE, Role
from tests.support.fake_room import FakePerson, FakeRoom, FakeStage, FakeVenue

_BACK_FOR_S = 0.5
_RUNS_WITHIN_S = 0.5
"""A process that answers within this isn't frozen."""
_TOLD_AFTER_S = 10.0
"""If it sends nothing: longer than any process is frozen."""
_PUT_OUT = frozenset((Lost.REMOVED, Lost.SUPERSEDED))


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as its worker sent it."""

    sent_s: float
    """CLOCK_MONOTONIC of the sender; all processes of a machine share it."""
    session_id: str
    node_id: str
    epoch: int
    attempt: int

    @property
    def order(self) -> tuple[int, int]:
        return (self.epoch, self.attempt)


class _WorkerLink:
    """What one worker is told, and when."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._lost: Lost | None = None
        self._asked_at_s = -math.inf
        """When it was last asked whether it runs."""

    def tell(self, **news: object) -> None:
        """Send it."""
        with contextlib.suppress(OSError):
            self._writer.write(json.dumps(news).encode() + b"\n")

    def lose(self, reason: Lost) -> None:
        """The worker is out: at once, unless somebody put it out."""
        if reason not in _PUT_OUT:
            self.tell(lost=reason)
            return
        self._lost = reason
        self._asked_at_s = time.monotonic()
        self.tell(runs=True)
        self._tell_lost_after(_TOLD_AFTER_S)

    def hear_it_runs(self) -> None:
        """The worker has answered; late, if it was frozen when it was asked."""
        if time.monotonic() - self._asked_at_s < _RUNS_WITHIN_S:
            self._tell_lost()

    def see_frame(self) -> None:
        """The worker still plays."""
        if self._lost is not None:
            self._tell_lost_after(_BACK_FOR_S)

    def _tell_lost_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._tell_lost)

    def _tell_lost(self) -> None:
        if self._lost is not None:
            self.tell(lost=self._lost)
            self._lost = None


class Venue:
    """All rooms of one run."""

    def __init__(self) -> None:
        self._rooms = FakeVenue()
        self._frames: list[Frame] = []
        self._metadata: dict[str, str] = {}
        """By the name of the room."""
        self._workers: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._http: web.AppRunner | None = None
        self.workers_port = 0
        self.http_port = 0

    async def open(self) -> None:
        """Listen for workers and for calls of the room service."""
        self._workers = await asyncio.start_server(self._host_worker, "127.0.0.1", 0)
        self.workers_port = self._workers.sockets[0].getsockname()[1]
        app = web.Application()
        app.router.add_post("/twirp/livekit.RoomService/{method}", self._answer)
        self._http = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._http.setup()
        await web.TCPSite(self._http, "127.0.0.1", 0).start()
        self.http_port = self._http.addresses[0][1]

    async def aclose(self) -> None:
        """Close everything."""
        if self._workers is not None:
            self._workers.close()
        for writer in self._connections:
            writer.transport.abort()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        if self._http is not None:
            await self._http.cleanup()

    def fail(self) -> None:
        """Be away: workers lose their rooms, nobody joins, calls are refused."""
        self._rooms.reachable = False
        for stage in self._rooms.rooms():
            stage.cut(Lost.CONNECTION)

    def recover(self) -> None:
        """Be there again."""
        self._rooms.reachable = True

    def enter(self, session_id: str, identity: str) -> FakePerson:
        """Let a controller into the session's room."""
        return self._rooms.stage(session_id).enter(identity)

    def people(self, session_id: str) -> list[FakePerson]:
        """Return everybody who is in the session's room."""
        return list(self._rooms.stage(session_id).people.values())

    def take_frames(self) -> list[Frame]:
        """Return the frames that came since the last call, and forget them and empty rooms."""
        frames, self._frames = self._frames, []
        self._rooms.forget_empty()
        return frames

    # --- workers --------------------------------------------------------------------------------

    async def _host_worker(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one join of one worker, from its first line to the end of its connection."""
        if (task := asyncio.current_task()) is not None:
            self._connections[writer] = task
        room: FakeRoom | None = None
        link = _WorkerLink(writer)
        try:
            hello = json.loads(await reader.readline())
            identity = WorkerIdentity(**hello["worker"])
            room = self._rooms(_request(hello, identity, link))
            await room.join()
            link.tell(joined=_told(room.presence()))
            while line := await reader.readline():
                said = json.loads(line)
                if "frame" in said:
                    link.see_frame()
                    self._note_frame(float(said["frame"]), hello["session"], identity)
                elif "runs" in said:
                    link.hear_it_runs()
                elif "status" in said:
                    await room.send_status(said["status"])
        except RoomsUnavailable as refused:
            link.tell(refused=str(refused))
        except (OSError, ValueError):
            pass  # killed in the middle of a line
        finally:
            self._connections.pop(writer, None)
            if room is not None:
                await room.leave()
            writer.close()

    def _note_frame(self, sent_s: float, session_id: str, worker: WorkerIdentity) -> None:
        self._frames.append(Frame(sent_s, session_id, worker.node_id, *worker.order))

    # --- the room service -----------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        if not self._rooms.reachable:
            return _fault(503, "unavailable")
        method, body = request.match_info["method"], await request.read()
        reply: Message
        match method:
            case "ListRooms":
                names = set(messages.ListRoomsRequest.FromString(body).names)
                reply = messages.ListRoomsResponse(rooms=self._listed(names))
            case "CreateRoom":
                made = messages.CreateRoomRequest.FromString(body)
                metadata = self._metadata.setdefault(made.name, made.metadata)
                reply = models.Room(name=made.name, metadata=metadata)
            case "UpdateRoomMetadata":
                changed = messages.UpdateRoomMetadataRequest.FromString(body)
                self._metadata[changed.room] = changed.metadata
                reply = models.Room(name=changed.room, metadata=changed.metadata)
            case "DeleteRoom":
                self._delete(messages.DeleteRoomRequest.FromString(body).room)
                reply = messages.DeleteRoomResponse()
            case "ListParticipants":
                room = messages.ListParticipantsRequest.FromString(body).room
                reply = messages.ListParticipantsResponse(participants=self._present(room))
            case "RemoveParticipant":
                self._remove(messages.RoomParticipantIdentity.FromString(body))
                reply = messages.RemoveParticipantResponse()
            case "SendData":
                self._send(messages.SendDataRequest.FromString(body))
                reply = messages.SendDataResponse()
            case _:
                return _fault(404, "bad_route")
        return web.Response(body=reply.SerializeToString(), content_type="application/protobuf")

    def _known(self, room: str) -> FakeStage | None:
        return self._rooms.known(session_of_room(room) or "")

    def _listed(self, names: set[str]) -> list[models.Room]:
        """Return the rooms in which somebody is; an empty one has closed by itself."""
        found = []
        for stage in self._rooms.rooms():
            name, inside = room_of(stage.session_id), len(stage.people) + len(stage.workers)
            if inside and (not names or name in names):
                metadata = self._metadata.get(name, "")
                found.append(models.Room(name=name, metadata=metadata, num_participants=inside))
        return found

    def _delete(self, room: str) -> None:
        self._metadata.pop(room, None)
        if (stage := self._known(room)) is not None:
            stage.delete()

    def _present(self, room: str) -> list[models.ParticipantInfo]:
        stage = self._known(room)
        if stage is None:
            return []
        people = [
            _participant(person.sid, person.identity, Role.CONTROLLER, None)
            for person in stage.people.values()
        ]
        workers = [one.occupant for one in stage.rooms()]
        return people + [_participant(w.sid, w.identity, Role.WORKER, w.order) for w in workers]

    def _remove(self, who: messages.RoomParticipantIdentity) -> None:
        stage = self._known(who.room)
        for room in stage.rooms() if stage is not None else []:
            if room.occupant.identity == who.identity:
                room.lose(Lost.REMOVED)

    def _send(self, sent: messages.SendDataRequest) -> None:
        stage = self._known(sent.room)
        for person in stage.people.values() if stage is not None else []:
            person.statuses.append(json.loads(sent.data))


def _request(hello: dict[str, str], identity: WorkerIdentity, link: _WorkerLink) -> RoomRequest:
    return RoomRequest(
        session_id=hello["session"],
        identity=identity,
        controller=hello["controller"],
        fps=1,
        events=RoomEvents(
            on_control=lambda *_: None,  # guests of a chaos run press no keys
            on_presence=lambda presence: link.tell(presence=_told(presence)),
            on_lost=lambda reason: link.lose(Lost(reason)),
            on_arrival=lambda who: link.tell(arrival=who),
        ),
    )


def _told(presence: Presence) -> list[object]:
    return [presence.connected, presence.controller, presence.participants]


def _participant(
    sid: str, identity: str, role: Role, order: tuple[int, int] | None
) -> models.ParticipantInfo:
    info = models.ParticipantInfo(identity=identity, sid=sid)
    info.attributes[ROLE_ATTRIBUTE] = role
    if order is not None:
        info.attributes[EPOCH_ATTRIBUTE] = str(order[0])
        info.attributes[ATTEMPT_ATTRIBUTE] = str(order[1])
    return info


def _fault(status: int, code: str) -> web.Response:
    text = json.dumps({"code": code, "msg": "a fault of the plan"})
    return web.Response(status=status, text=text, content_type="application/json")
