"""Which rooms must keep the contract? The fake of the tests, and LiveKit's with a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from gpu_node.livekit_room import LiveKitRooms
from gpu_node.room import Pcm, RoomFactory
from shared.errors import RoomsUnavailable
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import Role, RoomTokens
from tests.support.fake_room import FakePerson, FakeVenue, SeenFrame
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, livekit_server

__all__ = ["livekit_server"]

TTL_S = 600


class Person(Protocol):
    """Somebody in a room, whichever kind of room it is."""

    @property
    def frames(self) -> list[SeenFrame]: ...
    @property
    def statuses(self) -> list[dict[str, object]]: ...
    @property
    def metrics(self) -> list[dict[str, object]]: ...
    @property
    def audio(self) -> list[object]: ...
    async def send_file(
        self, data: bytes, name: str = ..., attributes: dict[str, str] | None = ...
    ) -> None: ...
    async def say(self, body: object, topic: str = ...) -> None: ...
    async def speak(self, pcm: Pcm, rate_hz: int) -> None: ...
    async def leave(self) -> None: ...
    def of_type(self, type_: str) -> list[dict[str, object]]: ...


class FakeVisitor:
    """A person of the fake venue behind the interface that both venues share."""

    def __init__(self, person: FakePerson) -> None:
        self.person = person
        self.frames, self.statuses = person.frames, person.statuses
        self.audio, self.of_type = person.audio, person.of_type
        self.metrics = person.metrics

    async def say(self, body: object, topic: str = "tf.control") -> None:
        self.person.say(body, topic)

    async def send_file(
        self, data: bytes, name: str = "picture.png", attributes: dict[str, str] | None = None
    ) -> None:
        self.person.send_file(data, name, attributes=attributes)

    async def speak(self, pcm: Pcm, rate_hz: int) -> None:
        await self.person.speak(pcm, rate_hz)

    async def leave(self) -> None:
        self.person.leave()


class FakeHouse:
    """The fake venue."""

    def __init__(self) -> None:
        self._venue = FakeVenue()
        self.rooms: RoomFactory = self._venue
        self.people: list[FakeVisitor] = []

    async def enter(self, session_id: str, identity: str, role: Role) -> FakeVisitor:
        visitor = FakeVisitor(self._venue.stage(session_id).enter(identity, role))
        self.people.append(visitor)
        return visitor

    async def reload(self, session_id: str, identity: str) -> FakeVisitor:
        (old,) = (one for one in self.people if one.person.identity == identity)
        self.people.remove(old)
        visitor = FakeVisitor(self._venue.stage(session_id).reload(old.person))
        self.people.append(visitor)
        return visitor

    async def delete(self, session_id: str) -> None:
        self._venue.stage(session_id).delete()

    def unreachable(self) -> RoomFactory:
        self._venue.reachable = False
        return self._venue

    async def aclose(self) -> None:
        pass


class LiveHouse:
    """A real media server and LiveKit's SDK on both sides."""

    def __init__(self, server: LiveKitServer) -> None:
        self._server = server
        self._tokens = RoomTokens(server.api_key, server.api_secret, TTL_S, "contract")
        self._admin = RoomAdmin(server.url, server.api_key, server.api_secret, "contract")
        self._rooms = self._factory(server.url)
        self.rooms: RoomFactory = self._rooms
        self._people: list[LivePerson] = []

    async def enter(self, session_id: str, identity: str, role: Role) -> LivePerson:
        sign = self._tokens.controller if role is Role.CONTROLLER else self._tokens.viewer
        person = LivePerson()
        await person.enter(self._server.url, sign(session_id, identity))
        self._people.append(person)
        return person

    async def reload(self, session_id: str, identity: str) -> LivePerson:
        # The page is gone without a goodbye; LiveKit puts its old connection out for the new one.
        return await self.enter(session_id, identity, Role.CONTROLLER)

    async def delete(self, session_id: str) -> None:
        await self._admin.delete(session_id)

    def unreachable(self) -> RoomFactory:
        return self._factory("ws://127.0.0.1:9")

    async def aclose(self) -> None:
        for person in self._people:
            await person.leave()
        await self._rooms.aclose(settle_s=0.0)
        await self._admin.aclose()

    def _factory(self, url: str) -> LiveKitRooms:
        return LiveKitRooms(
            url=url, tokens=self._tokens, admin=self._admin, lease_holds=lambda: True
        )


House = FakeHouse | LiveHouse


@pytest.fixture(params=["fake", "livekit"])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    """One kind of venue after the other."""
    if request.param == "fake":
        made: House = FakeHouse()
    else:
        made = LiveHouse(request.getfixturevalue("livekit_server"))
    yield made
    await made.aclose()


__all__ += ["House", "Person", "RoomsUnavailable"]
