"""Is a room made sure of, looked at, cleaned and deleted?"""

from __future__ import annotations

import json

import pytest
from livekit import api, rtc
from structlog.testing import capture_logs

from shared.errors import RoomsUnavailable
from shared.ids import WorkerIdentity, room_of
from shared.rooms.admin import RoomAdmin, RoomParticipant
from shared.rooms.tokens import DEPARTURE_TIMEOUT_S, Role, RoomTokens
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer
from tests.support.wait import wait_until


async def listed(admin: RoomAdmin, session_id: str) -> api.Room:
    """The room as the server lists it."""
    answer = await admin._rooms().list_rooms(api.ListRoomsRequest(names=[room_of(session_id)]))
    (room,) = answer.rooms
    return room


async def test_an_ensured_room_names_its_deployment_and_epoch(
    admin: RoomAdmin, session_id: str
) -> None:
    """Doing it again with a later epoch changes the metadata of the same room."""
    await admin.ensure(session_id, 7)
    first = await listed(admin, session_id)
    await admin.ensure(session_id, 8)
    second = await listed(admin, session_id)
    assert first.sid == second.sid
    assert json.loads(first.metadata) == {"deployment": "tests", "epoch": 7}
    assert json.loads(second.metadata) == {"deployment": "tests", "epoch": 8}
    assert second.departure_timeout == DEPARTURE_TIMEOUT_S


async def test_a_token_alone_makes_the_room_with_its_configuration(
    livekit_server: LiveKitServer, admin: RoomAdmin, tokens: RoomTokens, session_id: str
) -> None:
    """So a POST needs no call to LiveKit: who comes first makes the room."""
    alice = LivePerson()
    await alice.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    room = await listed(admin, session_id)
    assert json.loads(room.metadata) == {"deployment": "tests"}
    assert room.departure_timeout == DEPARTURE_TIMEOUT_S
    await alice.leave()


async def test_deleting_twice_or_the_unknown_is_fine(admin: RoomAdmin, session_id: str) -> None:
    """All callers only want it gone."""
    await admin.delete(session_id)
    await admin.ensure(session_id, 1)
    await admin.delete(session_id)
    await admin.delete(session_id)
    assert await admin.participants(session_id) == ()


async def test_nobody_in_an_unknown_room_is_no_error(admin: RoomAdmin, session_id: str) -> None:
    """Looking, removing, announcing and speaking there do nothing."""
    assert await admin.participants(session_id) == ()
    await admin.remove(session_id, "alice")
    await admin.announce(session_id, "alice")
    await admin.send_status(session_id, {"type": "requeued"})
    assert await admin.remove_older_workers(session_id, (9, 9), ()) == ()


async def test_only_older_workers_are_removed(
    livekit_server: LiveKitServer, admin: RoomAdmin, tokens: RoomTokens, session_id: str
) -> None:
    """Humans and the current worker stay; a status of the API reaches who is there."""
    alice, rooms = LivePerson(), []
    await alice.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    for epoch in (5, 6):
        room = rtc.Room()
        identity = WorkerIdentity(node_id="n", epoch=epoch, attempt=1)
        await room.connect(livekit_server.url, tokens.worker(session_id, identity))
        rooms.append(room)
    there = await admin.participants(session_id)
    assert await admin.remove_older_workers(session_id, (6, 1), there) == ("telefuser-n-5-1",)
    await wait_until(lambda: not rooms[0].isconnected(), "the older worker is out")
    present = {one.identity: one for one in await admin.participants(session_id)}
    assert set(present) == {"alice", "telefuser-n-6-1"}
    worker = present["telefuser-n-6-1"]
    assert worker == RoomParticipant(
        sid=worker.sid, identity="telefuser-n-6-1", role=Role.WORKER, order=(6, 1)
    )
    await admin.send_status(session_id, {"type": "requeued", "reason": "node_dead"})
    await wait_until(lambda: alice.of_type("requeued"), "the status arrives")
    await rooms[1].disconnect()
    await alice.leave()


async def test_wrong_keys_are_told_without_a_token(livekit_server: LiveKitServer) -> None:
    """The probe is false and logs why, once; the error names the cause only."""
    admin = RoomAdmin(livekit_server.url, "devkey", "x" * 40, "tests")
    with capture_logs() as logs:
        assert await admin.probe() is False
        assert await admin.probe() is False
    (told,) = logs
    assert "doesn't take the API key and secret" in told["why"]
    with pytest.raises(RoomsUnavailable, match="key and secret") as caught:
        await admin.participants("default-" + "a" * 26)
    assert "eyJ" not in str(caught.value)
    await admin.aclose()


async def test_a_dead_server_is_unavailable(admin: RoomAdmin) -> None:
    """The probe tells one from the other; nothing hangs."""
    assert await admin.probe() is True
    dead = RoomAdmin("ws://127.0.0.1:9", "devkey", "x" * 40, "tests")
    with capture_logs() as logs:
        assert await dead.probe() is False
    assert [line["log_level"] for line in logs] == ["warning"]
    with pytest.raises(RoomsUnavailable):
        await dead.delete("default-" + "a" * 26)
    await dead.aclose()
