"""The sweeper: what follows when a node or a session fell silent."""

from __future__ import annotations

import asyncio
import json

from control_plane.app import Replica
from shared.ids import WorkerIdentity
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, served, settings_for
from tests.support.room_service import RoomCall, RoomService
from tests.support.wait import wait_until


async def running_session(api: Client, node: PlayedNode, room_service: RoomService) -> str:
    """Create a session, play it on *node*, and let its worker be in the room."""
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)
    epoch = node.holds(session_id).epoch
    worker = WorkerIdentity(node_id=node.node_id, epoch=epoch, attempt=1)
    room_service.enter(session_id, worker)
    return session_id


async def test_a_silent_nodes_session_goes_back_to_the_line(
    api: Client, begin_node: BeginNode, room_service: RoomService
) -> None:
    """It is first in line again; its old worker is put out and the room is told."""
    node = await begin_node(ttl_s=0.5)
    session_id = await running_session(api, node, room_service)

    async def queued() -> bool:
        return bool((await api.look(session_id)).json()["status"] == "queued")

    await wait_until(queued, "the session is back in line")
    await wait_until(lambda: room_service.made("SendData"), "the room is told")

    seen = (await api.look(session_id)).json()
    (removed,) = room_service.made("RemoveParticipant")
    told = json.loads(room_service.made("SendData")[0].detail)
    assert (seen["queue_position"], seen["attempt"], seen["node_id"]) == (1, 2, None)
    assert removed.session_id == session_id
    assert removed.detail.startswith("telefuser-node-a-")
    assert (told["type"], told["session_id"], told["reason"]) == (
        "requeued",
        session_id,
        "node_died",
    )


async def test_the_returned_session_is_placed_elsewhere(
    api: Client, begin_node: BeginNode, room_service: RoomService
) -> None:
    """With a free node the session moves on at once, under a higher epoch."""
    node = await begin_node(ttl_s=0.5)
    session_id = await running_session(api, node, room_service)
    before = (await api.look(session_id)).json()["epoch"]
    await begin_node(node_id="node-b")

    async def moved() -> bool:
        return bool((await api.look(session_id)).json()["node_id"] == "node-b")

    await wait_until(moved, "the other node has it")
    assert (await api.look(session_id)).json()["epoch"] > before


async def test_a_waiting_session_that_fell_silent_loses_its_room(
    replica: tuple[Replica, Client], raw_redis: RawRedis, room_service: RoomService
) -> None:
    """Nobody else would delete it."""
    parts, api = replica
    session_id = (await api.create()).json()["session_id"]
    record = f"gr:{{default}}:s:{session_id}"
    raw_redis.hset(record, mapping={"d_queued": 1, "t_queued": 1})
    raw_redis.zadd("gr:{default}:dl", {session_id: 1})

    await parts.sweeper.sweep()

    async def is_over() -> bool:
        return (await parts.registry.read(session_id)).reason == "queue_abandoned"

    await wait_until(is_over, "it is given up")
    await wait_until(lambda: room_service.made("DeleteRoom"), "the room is deleted")
    assert room_service.made("DeleteRoom") == [RoomCall("DeleteRoom", session_id)]


async def test_a_livekit_that_hangs_does_not_stop_the_sweep(
    api: Client, begin_node: BeginNode, room_service: RoomService
) -> None:
    """Chores wait; sessions of the next dead node still come back in time."""
    first_node = await begin_node(node_id="node-a", ttl_s=0.5)
    first = await running_session(api, first_node, room_service)
    room_service.unblocked.clear()

    async def is_queued(session_id: str) -> bool:
        return bool((await api.look(session_id)).json()["status"] == "queued")

    await wait_until(lambda: is_queued(first), "the first session is back")
    await api.stop(first)
    second_node = await begin_node(node_id="node-b", ttl_s=0.5)
    second = (await api.create()).json()["session_id"]
    await second_node.play(second)
    await wait_until(lambda: is_queued(second), "the second session is back as well")
    room_service.unblocked.set()


async def test_a_livekit_that_fails_is_only_logged(
    replica: tuple[Replica, Client], room_service: RoomService
) -> None:
    """A chore that failed is counted, and the next one is done."""
    parts, api = replica
    session_id = (await api.create()).json()["session_id"]
    room_service.down = True
    parts.chores.delete_room(session_id)
    failed = b'greenroom_room_chores_total{chore="delete_room",outcome="failed"} 1.0'
    await wait_until(
        lambda: failed in parts.metrics.render((), redis_up=True, livekit_up=True),
        "the failure is counted",
    )
    room_service.down = False

    parts.chores.delete_room(session_id)

    await wait_until(lambda: room_service.made("DeleteRoom"), "the next chore is done")


async def test_two_sweepers_do_each_thing_once(
    redis_url: str, room_service: RoomService, begin_node: BeginNode, registry: Registry
) -> None:
    """Replicas need no leader: a session is returned once, whoever saw it first."""
    async with (
        served(settings_for(redis_url, room_service.url)) as (one, api),
        served(settings_for(redis_url, room_service.url)) as (two, _),
    ):
        node = await begin_node(ttl_s=0.5)
        session_id = await running_session(api, node, room_service)

        async def queued() -> bool:
            return (await registry.read(session_id)).state == "queued"

        await wait_until(queued, "the session is back in line")
        await asyncio.gather(one.sweeper.sweep(), two.sweeper.sweep())
        await wait_until(lambda: room_service.made("SendData"), "the room is told")

    assert (await registry.read(session_id)).attempt == 2
    assert len(room_service.made("SendData")) == 1


async def test_sweeping_goes_on_after_redis_was_away(
    start_redis: object, room_service: RoomService
) -> None:
    """An outage of the registry ends no loop."""
    server = start_redis("--appendonly", "yes")  # type: ignore[operator]
    async with served(settings_for(server.url, room_service.url)) as (parts, _):
        server.kill()
        server.start()
        swept: list[str] = []
        parts.registry.observe(lambda script, _s: swept.append(script))
        await wait_until(lambda: "sweep_deadlines" in swept, "it sweeps again", timeout_s=10)
