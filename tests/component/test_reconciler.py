"""The reconciler: rooms and workers that nobody else cleans up."""

from __future__ import annotations

from control_plane.app import Replica
from control_plane.reconciler import SETTLES_MS, UNKNOWN_FOR_S
from shared.ids import WorkerIdentity, new_session_id
from shared.rooms.tokens import room_metadata
from shared.states import Reason
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica import BeginNode, Client
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

OURS = room_metadata("test", 1)
PREFIX = f"gr:{{{POOL}}}:"

Running = tuple[Replica, Client]


async def looked(parts: Replica, room_service: RoomService, now_s: float = 0.0) -> list[str]:
    """Look once, and return the sessions whose rooms were deleted when all chores are done."""
    await parts.reconciler.look(now_s)
    marker = new_session_id(POOL)
    parts.chores.delete_room(marker)
    await wait_until(
        lambda: marker in [call.session_id for call in room_service.made("DeleteRoom")],
        "the chores are done",
    )
    deleted = [call.session_id for call in room_service.made("DeleteRoom")]
    room_service.calls.clear()
    return [name for name in deleted if name != marker]


async def ended(parts: Replica, api: Client, raw: RawRedis, *, ago_ms: int) -> str:
    """Have a session that ended some time ago."""
    session_id: str = (await api.create()).json()["session_id"]
    await parts.registry.cancel(session_id, Reason.CLIENT_STOP)
    raw.hincrby(f"{PREFIX}s:{session_id}", "ended", -ago_ms)
    return session_id


async def test_the_room_of_an_ended_session_goes(
    replica: Running, raw_redis: RawRedis, room_service: RoomService
) -> None:
    """Whoever ended it died before the room was deleted; whoever is in it is put out."""
    parts, api = replica
    session_id = await ended(parts, api, raw_redis, ago_ms=SETTLES_MS + 1_000)
    room_service.list_room(session_id, OURS, participants=2)
    assert await looked(parts, room_service) == [session_id]


async def test_whoever_ended_it_comes_first(
    replica: Running, raw_redis: RawRedis, room_service: RoomService
) -> None:
    """Just now is no leftover."""
    parts, api = replica
    session_id = await ended(parts, api, raw_redis, ago_ms=0)
    room_service.list_room(session_id, OURS)
    assert await looked(parts, room_service) == []


async def test_rooms_of_another_deployment_are_never_touched(
    replica: Running, raw_redis: RawRedis, room_service: RoomService
) -> None:
    """Two deployments may share a media server; a room without our mark isn't ours either."""
    parts, api = replica
    session_id = await ended(parts, api, raw_redis, ago_ms=60_000)
    for metadata in (room_metadata("other", 1), "", "{}"):
        room_service.list_room(session_id, metadata)
        assert await looked(parts, room_service) == []


async def test_an_unknown_room_goes_after_ten_minutes_if_it_is_empty(
    replica: Running, room_service: RoomService
) -> None:
    """Two looks must say so: the registry may have lost the record and get it back."""
    parts, _ = replica
    empty, in_use = new_session_id(POOL), new_session_id(POOL)
    room_service.list_room(empty, OURS)
    room_service.list_room(in_use, OURS, participants=1)
    assert await looked(parts, room_service, 0.0) == []
    assert await looked(parts, room_service, UNKNOWN_FOR_S - 1) == []
    assert await looked(parts, room_service, UNKNOWN_FOR_S) == [empty]


async def test_a_room_whose_record_came_back_isn_t_unknown_any_more(
    replica: Running, room_service: RoomService, raw_redis: RawRedis
) -> None:
    """Its ten minutes begin anew when it is lost again."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.list_room(session_id, OURS)
    record = f"{PREFIX}s:{session_id}"
    raw_redis.rename(record, "aside")
    assert await looked(parts, room_service, 0.0) == []
    raw_redis.rename("aside", record)
    assert await looked(parts, room_service, 300.0) == []
    raw_redis.rename(record, "aside")
    assert await looked(parts, room_service, UNKNOWN_FOR_S) == []
    raw_redis.flushall()  # a sweep may have taken the session without a record out of the line


async def test_nothing_goes_in_a_grace(
    replica: Running, raw_redis: RawRedis, room_service: RoomService
) -> None:
    """The registry has just lost its last writes, perhaps: it is still learning what is played."""
    parts, api = replica
    session_id = await ended(parts, api, raw_redis, ago_ms=60_000)
    room_service.list_room(session_id, OURS)
    raw_redis.hset(f"{PREFIX}ctr", "grace", 9_999_999_999_999)
    assert await looked(parts, room_service) == []
    raw_redis.hdel(f"{PREFIX}ctr", "grace")
    assert await looked(parts, room_service) == [session_id]


async def test_a_zombie_in_the_room_of_a_waiting_session_is_put_out(
    replica: Running, begin_node: BeginNode, room_service: RoomService
) -> None:
    """It woke and came back after the sweep had put it out; no successor is there yet (R1)."""
    parts, api = replica
    node = await begin_node(ttl_s=0.5)
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    zombie = WorkerIdentity(node_id="node-a", epoch=node.holds(session_id).epoch, attempt=1)

    async def waits() -> bool:
        return bool((await api.look(session_id)).json()["status"] == "queued")

    await wait_until(waits, "the session is back in line")
    room_service.calls.clear()
    room_service.list_room(session_id, OURS, participants=2)
    room_service.enter(session_id, zombie)
    room_service.seat(session_id, "alice")
    await parts.reconciler.look(0.0)
    await wait_until(
        lambda: [call.detail for call in room_service.made("RemoveParticipant")] == [str(zombie)],
        "the zombie is out",
    )
    assert room_service.made("DeleteRoom") == []


async def test_a_playing_session_is_left_alone(
    replica: Running, begin_node: BeginNode, room_service: RoomService
) -> None:
    """Its own worker sees to its room."""
    parts, api = replica
    node = await begin_node()
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    room_service.list_room(session_id, OURS, participants=2)
    room_service.enter(session_id, WorkerIdentity(node_id="node-z", epoch=1, attempt=1))
    assert await looked(parts, room_service) == []
    assert room_service.made("RemoveParticipant") == []
