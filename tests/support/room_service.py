"""How does a test see what a replica does in rooms, where no media server runs?

A small HTTP server that speaks LiveKit's room service: it knows who is in which room, notes each
call, and can be taken down or made slow. The replica's own `RoomAdmin` talks to it as to the real
one; no media flows here (for that, see `livekit_server`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from google.protobuf.message import Message
from livekit.protocol import models
from livekit.protocol import room as messages

from shared.ids import WorkerIdentity, room_of, session_of_room
from shared.rooms.tokens import ATTEMPT_ATTRIBUTE, EPOCH_ATTRIBUTE, ROLE_ATTRIBUTE


@dataclass(frozen=True, slots=True)
class RoomCall:
    """One call as it arrived."""

    method: str
    session_id: str
    detail: str = ""
    """The participant who was removed, or the data that was sent."""


class RoomService:
    """The rooms that a test furnishes, and the calls that it looks at afterwards."""

    def __init__(self) -> None:
        self.url = ""
        self.down = False
        """Every call fails, as with a server that is going down."""
        self.unblocked = asyncio.Event()
        """While not set, every call hangs."""
        self.unblocked.set()
        self.calls: list[RoomCall] = []
        self.asked: list[str] = []
        """The sessions whose participants were asked for, in order."""
        self.told: list[str] = []
        """All data that was ever sent into a room; stays when a test forgets the calls."""
        self._rooms: dict[str, list[models.ParticipantInfo]] = {}
        self._listed: list[models.Room] = []

    def enter(self, session_id: str, worker: WorkerIdentity) -> None:
        """Let a worker be in the session's room."""
        info = models.ParticipantInfo(identity=str(worker), sid=f"PA_{worker}")
        info.attributes[ROLE_ATTRIBUTE] = "worker"
        info.attributes[EPOCH_ATTRIBUTE] = str(worker.epoch)
        info.attributes[ATTEMPT_ATTRIBUTE] = str(worker.attempt)
        self._rooms.setdefault(session_id, []).append(info)

    def list_room(
        self, session_id: str, metadata: str, *, participants: int = 0, publishers: int = 0
    ) -> None:
        """Let the list of rooms name this one."""
        self._listed = [one for one in self._listed if one.name != room_of(session_id)]
        room = models.Room(name=room_of(session_id), metadata=metadata)
        room.num_participants, room.num_publishers = participants, publishers
        self._listed.append(room)

    def seat(self, session_id: str, identity: str, role: str = "controller") -> None:
        """Let a human be in the session's room."""
        info = models.ParticipantInfo(identity=identity, sid=f"PA_{identity}")
        info.attributes[ROLE_ATTRIBUTE] = role
        self._rooms.setdefault(session_id, []).append(info)

    def made(self, method: str) -> list[RoomCall]:
        """The calls of *method*, in order; looks at single participants left out."""
        return [call for call in self.calls if call.method == method]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one call of the room service."""
        await self.unblocked.wait()
        if self.down:
            return _fault(503, "unavailable")
        return self._answer(request.match_info["method"], await request.read())

    def _answer(self, method: str, body: bytes) -> web.Response:
        reply: Message
        match method:
            case "ListRooms":
                names = messages.ListRoomsRequest.FromString(body).names
                listed = [one for one in self._listed if not names or one.name in names]
                reply = messages.ListRoomsResponse(rooms=listed)
            case "DeleteRoom":
                self._note(method, messages.DeleteRoomRequest.FromString(body).room)
                reply = messages.DeleteRoomResponse()
            case "ListParticipants":
                room = messages.ListParticipantsRequest.FromString(body).room
                self.asked.append(session_of_room(room) or room)
                present = self._rooms.get(session_of_room(room) or "", [])
                reply = messages.ListParticipantsResponse(participants=present)
            case "RemoveParticipant":
                who = messages.RoomParticipantIdentity.FromString(body)
                self._note(method, who.room, who.identity)
                reply = messages.RemoveParticipantResponse()
            case "SendData":
                sent = messages.SendDataRequest.FromString(body)
                self.told.append(sent.data.decode())
                self._note(method, sent.room, self.told[-1])
                reply = messages.SendDataResponse()
            case _:
                return _fault(404, "bad_route")
        return web.Response(body=reply.SerializeToString(), content_type="application/protobuf")

    def _note(self, method: str, room: str, detail: str = "") -> None:
        session_id = session_of_room(room)
        assert session_id is not None, f"not one of our rooms: {room}"
        self.calls.append(RoomCall(method, session_id, detail))


def _fault(status: int, code: str) -> web.Response:
    text = json.dumps({"code": code, "msg": "as the test wants it"})
    return web.Response(status=status, text=text, content_type="application/json")


@asynccontextmanager
async def running_room_service() -> AsyncIterator[RoomService]:
    """Run one room service on a free port for the length of the block."""
    service = RoomService()
    app = web.Application()
    app.router.add_post("/twirp/livekit.RoomService/{method}", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    service.url = f"ws://{host}:{port}"
    try:
        yield service
    finally:
        service.unblocked.set()
        await runner.cleanup()
