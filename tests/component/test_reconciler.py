"""The reconciler: rooms and workers that nobody else cleans up."""

from __future__ import annotations

import json

from control_plane.app import Replica
from control_plane.reconciler import SETTLES_MS, UNKNOWN_FOR_S
from shared.ids import WorkerIdentity, new_session_id
from shared.records import Owner
from shared.rooms.tokens import room_metadata
from shared.states import Reason
from shared.store import Registry
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
    room_service.list_room(session_id, OURS, participants=2, publishers=1)
    room_service.enter(session_id, WorkerIdentity(node_id="node-z", epoch=1, attempt=1))
    assert await looked(parts, room_service) == []
    assert room_service.made("RemoveParticipant") == []


async def test_a_second_publisher_is_looked_at_and_only_an_older_worker_goes(
    replica: Running, begin_node: BeginNode, room_service: RoomService
) -> None:
    """Its own worker may be busy or deaf; somebody with a microphone publishes, too (R3)."""
    parts, api = replica
    node = await begin_node()
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    epoch = node.holds(session_id).epoch
    own, later, zombie = [
        WorkerIdentity(node_id=name, epoch=epoch + offset, attempt=1)
        for name, offset in (("node-a", 0), ("node-b", 1), ("node-z", -1))
    ]
    room_service.seat(session_id, "alice")
    for worker in (own, later, zombie):
        room_service.enter(session_id, worker)
    room_service.list_room(session_id, OURS, participants=4, publishers=2)
    await parts.reconciler.look(0.0)
    await wait_until(
        lambda: [call.detail for call in room_service.made("RemoveParticipant")] == [str(zombie)],
        "the zombie is out",
    )
    assert room_service.made("DeleteRoom") == []
    assert room_service.made("SendData") == []


async def test_whoever_wasnt_told_of_the_return_is_told_later_and_once(
    replica: Running, begin_node: BeginNode, registry: Registry, room_service: RoomService
) -> None:
    """The replica that found it out died, or its sweep's reply was lost: the record still says
    why.
    """
    parts, api = replica
    node = await begin_node()
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    epoch = node.holds(session_id).epoch
    owner = Owner(
        node_id="node-a", incarnation=node.incarnation, session_id=session_id, epoch=epoch
    )
    await registry.give_back(owner, why="media_lost", capacity=0, media_ok=False)
    room_service.seat(session_id, "alice")
    room_service.list_room(session_id, OURS, participants=1)
    for _ in range(3):
        await parts.reconciler.look(0.0)
    await wait_until(lambda: room_service.made("SendData"), "the room is told")
    await parts.reconciler.look(0.0)
    assert await looked(parts, room_service) == []
    told = json.loads(room_service.told[0])
    assert (told["type"], told["reason"]) == ("requeued", "media_lost")
    assert len(room_service.told) == 1


async def test_who_waits_for_the_first_time_is_counted_and_looked_at_no_more(
    replica: Running, room_service: RoomService
) -> None:
    """Thousands may wait: nothing else can be left over in their rooms."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.seat(session_id, "alice")
    room_service.list_room(session_id, OURS, participants=1)
    assert await looked(parts, room_service) == []

    async def counted() -> bool:
        return bool((await api.look(session_id)).json()["participant_count"] == 1)

    await wait_until(counted, "she is counted")
    assert await looked(parts, room_service) == []
    once = b'greenroom_room_chores_total{chore="look_into_room",outcome="done"} 1.0'
    assert once in parts.metrics.render((), redis_up=True, livekit_up=True)
