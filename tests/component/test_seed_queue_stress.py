"""Many at once, and what was found broken elsewhere, on the real store behind two replicas.

The first part is what another system of this kind tests on its queue under load (S1 to S11), the
second what was found to be wrong in it (R1, R2, R4, R6).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from shared.states import Reason
from shared.store import Registry
from tests.support.event_stream import following
from tests.support.redis_server import RawRedis
from tests.support.replica import SESSIONS, BeginNode, assert_problem, served, settings_for
from tests.support.replica_process import Start
from tests.support.room_service import RoomService
from tests.support.two_replicas import TwoReplicas, serve_all, serve_next, two_replicas
from tests.support.wait import wait_until

KINDS: tuple[dict[str, object], ...] = ({"mode": "talk"}, {"mode": "world"}, {})


@pytest_asyncio.fixture
async def two(
    registry: Registry, redis_url: str, room_service: RoomService
) -> AsyncIterator[TwoReplicas]:
    """One service behind two replicas."""
    async with two_replicas(registry, redis_url, room_service.url) as both:
        yield both


async def test_a_hundred_who_come_at_once_get_the_places_one_to_a_hundred(
    two: TwoReplicas,
) -> None:
    """S1: no hole, no double."""
    answers = await two.create_at_once(100)
    assert sorted(a["queue_position"] for a in answers) == list(range(1, 101))


async def test_two_hundred_are_served_by_three_nodes(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S2: all of them, and the line is empty."""
    answers = await two.create_at_once(200)
    nodes = [await begin_node(node_id=f"node-{n}") for n in range(3)]
    served_now = await serve_all(nodes)
    assert sorted(served_now) == sorted(a["session_id"] for a in answers)
    assert await two.length() == 0


async def test_fifty_are_served_while_slots_change_hands_quickly(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S3: each in its turn."""
    waiting = await two.create_many(50)
    node = await begin_node()
    assert [await serve_next(node) for _ in range(50)] == waiting


async def test_sessions_of_all_kinds_are_served_strictly_in_order(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S4: what a session is for gives no head start."""
    waiting = [await two.create(config=KINDS[n % 3]) for n in range(30)]
    assert await serve_all([await begin_node()]) == waiting


async def test_fifty_of_each_kind_are_all_served_by_five_nodes(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S5: they come while others are served."""
    nodes = [await begin_node(node_id=f"node-{n}") for n in range(5)]
    created, served_now = [], []
    for kind in KINDS:
        created += [a["session_id"] for a in await two.create_at_once(50, config=kind)]
        served_now += await serve_all(nodes)
    assert sorted(served_now) == sorted(created)
    assert len(served_now) == 150


async def test_when_every_second_one_leaves_exactly_the_others_are_served(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S6: in their order."""
    waiting = await two.create_many(100)
    await asyncio.gather(*(two.cancel(session_id) for session_id in waiting[1::2]))
    assert await serve_all([await begin_node()]) == waiting[::2]


async def test_when_all_leave_the_line_is_empty(two: TwoReplicas, begin_node: BeginNode) -> None:
    """S7: nobody is served who left."""
    waiting = await two.create_many(40)
    await asyncio.gather(*(two.cancel(session_id) for session_id in waiting))
    assert await two.length() == 0
    assert await serve_all([await begin_node()]) == []


async def test_one_place_that_comes_free_takes_exactly_one(
    registry: Registry, redis_url: str, room_service: RoomService
) -> None:
    """S8, S9: full for sessions of every kind; one leaves, one of many gets in."""
    async with two_replicas(registry, redis_url, room_service.url, queue_size=20) as two:
        waiting = [await two.create(config=KINDS[n % 3]) for n in range(20)]
        for kind in KINDS:
            assert_problem(await two.ask(config=kind), 429, "busy")
        await two.cancel(waiting[7])
        answers = await two.create_at_once(10)
        assert sorted(a["status"] for a in answers if "session_id" in a) == ["queued"]
        assert await two.length() == 20


async def test_while_some_come_and_others_go_none_is_lost(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S10: a hundred come, a hundred are served."""
    node = await begin_node()
    created: list[str] = []

    async def come() -> None:
        for _ in range(100):
            session_id = await two.create()
            created.append(session_id)

    async def serve() -> list[str]:
        gone: list[str] = []
        while len(gone) < 100:
            gone += await serve_all([node])
        return gone

    _, served_now = await asyncio.gather(come(), serve())
    assert served_now == created


async def test_places_have_no_holes_whatever_happened(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """S11: after any mix of coming, leaving and being served."""
    waiting = await two.create_many(12)
    node = await begin_node()
    for session_id in (waiting[3], waiting[8]):
        await two.cancel(session_id)
    for _ in range(3):
        await serve_next(node)
    waiting += await two.create_many(4)
    places = [place for place in await two.places(waiting) if place is not None]
    assert places == list(range(1, len(places) + 1))


# What was found broken.


async def test_a_waiter_that_vanishes_as_its_turn_comes_blocks_no_slot(
    registry: Registry, redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """R1: its connection is cut, then the slot comes free: it is served, isn't there, and goes."""
    options = {"controller_timeout_s": 0.3}
    async with two_replicas(registry, redis_url, room_service.url, **options) as two:
        node = await begin_node()
        first, vanished, behind = await two.create_many(3)
        await node.play(first)
        async with following(two.parts[0].app, vanished) as stream:
            await stream.event("queued")
        await node.end(first, Reason.COMPLETED)
        await node.beat()
        await node.play(vanished)
        await node.see(vanished, controller=False, participants=0)

        async def is_draining() -> bool:
            return bool((await two.look(vanished))["status"] == "draining")

        await wait_until(is_draining, "nobody came for it")
        await node.end(vanished, Reason.CONTROLLER_TIMEOUT)
        assert (await two.look(vanished))["reason"] == "controller_timeout"
        assert (await two.look(behind))["status"] == "assigned"


async def test_when_one_of_two_nodes_dies_nobody_in_line_fails(
    two: TwoReplicas, begin_node: BeginNode
) -> None:
    """R2: all eight are served by the other one, and the dead node's session is served first."""
    dying = await begin_node(node_id="node-a", ttl_s=0.5)
    first = await two.create()
    await dying.play(first)
    other = await begin_node(node_id="node-b")
    second = await two.create()
    await other.play(second)
    waiting = await two.create_many(8)

    async def is_back() -> bool:
        return bool((await two.look(first))["attempt"] == 2)

    await wait_until(is_back, "its session is back in line")
    assert await two.place(first) == 1
    assert await serve_all([other]) == [second, first, *waiting]
    ends = [(await two.look(session_id))["status"] for session_id in (first, *waiting)]
    assert ends == ["closed"] * 9


async def test_a_replica_that_is_killed_takes_nothing_along(
    two: TwoReplicas, begin_node: BeginNode, start_replica: Start, room_service: RoomService
) -> None:
    """R4: kill -9; the waiting client goes on elsewhere in its place, the running one plays."""
    node = await begin_node()
    process = start_replica(LIVEKIT_URL=room_service.url, DEPLOYMENT_ID="test", QUEUE_SIZE="9")
    async with httpx.AsyncClient(base_url=await asyncio.to_thread(process.address)) as client:
        running = (await client.post(SESSIONS, json={"identity": "a"})).json()["session_id"]
        await node.play(running)
        waiting = (await client.post(SESSIONS, json={"identity": "b"})).json()["session_id"]
        async with client.stream("GET", f"{SESSIONS}/{waiting}/events") as stream:
            lines = stream.aiter_lines()
            known = 0
            while not known:
                line = await anext(lines)
                known = int(line.removeprefix("id: ")) if line.startswith("id: ") else 0
            process.signal(signal.SIGKILL)
            try:
                async for _line in lines:
                    pass
            except httpx.HTTPError:
                pass  # cut off, as a browser would see it
    async with following(two.parts[1].app, waiting, known) as again:
        place = await again.event("queued")
        assert (place.id, place.data["position"]) == (None, 1)
        assert (await two.look(running))["status"] == "running"
        await node.end(running, Reason.COMPLETED)
        await again.event("assigned")


async def test_without_nodes_the_wait_is_unknown_and_failures_teach_nothing(
    registry: Registry,
    redis_url: str,
    room_service: RoomService,
    begin_node: BeginNode,
    raw_redis: RawRedis,
) -> None:
    """R6: not 0; three instant failures don't move it; a new replica knows what was learned."""
    raw_redis.rpush("gr:{default}:holds", *[60_000] * 3)
    async with two_replicas(registry, redis_url, room_service.url) as two:
        assert (await two.ask()).json()["estimated_wait_s"] is None
        node = await begin_node()
        await serve_next(node)
        for _ in range(3):
            failing = await two.create()
            await node.play(failing)
            await node.end(failing, Reason.SERVICE_ERROR)
        await two.create()
        await node.beat()
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        answer = (await api.create(identity="late")).json()
    assert answer["status"] == "queued"
    assert 55 <= answer["estimated_wait_s"] <= 60
