"""The waiting lease (R10): silence is a suspicion, a look into the room settles it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control_plane.app import Replica
from shared.errors import StoreUnavailable
from shared.store import Registry
from tests.support.event_stream import following
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, served, settings_for
from tests.support.room_service import RoomCall, RoomService
from tests.support.wait import wait_until

Running = tuple[Replica, Client]


async def fallen_silent(api: Client, raw: RawRedis) -> str:
    """Create a session whose waiting lease has run out."""
    session_id: str = (await api.create()).json()["session_id"]
    let_run_out(raw, session_id)
    return session_id


def let_run_out(raw: RawRedis, session_id: str) -> None:
    """Bring the end of a session's waiting lease to now."""
    raw.hset(f"gr:{{default}}:s:{session_id}", "t_queued", 1)
    raw.zadd("gr:{default}:dl", {session_id: 1})


def lease_of(raw: RawRedis, session_id: str) -> int:
    """When the waiting lease of a session ends, in registry time."""
    return int(raw.hget(f"gr:{{default}}:s:{session_id}", "t_queued") or 0)


def registry_ms(raw: RawRedis) -> int:
    """Registry time now, more or less."""
    return int(raw.hget("gr:{default}:ctr", "rt") or 0)


async def test_a_client_that_left_gives_up_its_place(
    replica: Running, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """Nobody asks, nobody is in the room: abandoned, and the room goes."""
    _, api = replica
    session_id = await fallen_silent(api, raw_redis)

    async def ended() -> bool:
        return (await registry.read(session_id)).ended

    await wait_until(ended, "it is given up")
    assert (await registry.read(session_id)).reason == "queue_abandoned"
    gone = RoomCall("DeleteRoom", session_id)
    await wait_until(lambda: gone in room_service.made("DeleteRoom"), "its room is deleted")


async def test_a_client_in_the_room_keeps_its_place(
    replica: Running, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """A phone in the pocket asks nothing and is there: a full lease."""
    _, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.seat(session_id, "alice")
    let_run_out(raw_redis, session_id)
    await wait_until(
        lambda: lease_of(raw_redis, session_id) > registry_ms(raw_redis) + 50_000, "it is extended"
    )
    assert (await registry.read(session_id)).position == 1


async def test_a_viewer_in_the_room_is_no_sign_of_its_client(
    replica: Running, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """Only the controller waits for the stage."""
    _, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.seat(session_id, "bob", "viewer")
    let_run_out(raw_redis, session_id)

    async def ended() -> bool:
        return (await registry.read(session_id)).ended

    await wait_until(ended, "it is given up")


async def test_without_livekit_nobody_loses_a_place(
    replica: Running, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """Who can't be seen isn't missing: a full lease."""
    _, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.down = True
    let_run_out(raw_redis, session_id)
    await wait_until(
        lambda: lease_of(raw_redis, session_id) > registry_ms(raw_redis) + 50_000, "it is extended"
    )
    assert (await registry.read(session_id)).position == 1


async def test_a_client_that_asks_while_it_is_looked_for_keeps_its_place(
    replica: Running, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """The look into the room is old news by then."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    room_service.unblocked.clear()
    settled = asyncio.Event()
    parts.registry.observe(lambda script, _s: settled.set() if script == "settle_waiting" else None)
    let_run_out(raw_redis, session_id)
    await wait_until(lambda: lease_of(raw_redis, session_id) > 1, "it is looked for")
    await api.look(session_id)
    room_service.unblocked.set()
    async with asyncio.timeout(5):
        await settled.wait()
    assert (await registry.read(session_id)).position == 1


async def test_a_replica_that_dies_while_it_looks_leaves_the_question_open(
    redis_url: str, raw_redis: RawRedis, registry: Registry, room_service: RoomService
) -> None:
    """Another one is asked ten seconds later."""
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        session_id: str = (await api.create()).json()["session_id"]
        room_service.unblocked.clear()
        let_run_out(raw_redis, session_id)
        await wait_until(lambda: lease_of(raw_redis, session_id) > 1, "it is looked for")
    assert 5_000 < lease_of(raw_redis, session_id) - registry_ms(raw_redis) <= 10_000
    room_service.unblocked.set()
    let_run_out(raw_redis, session_id)
    async with served(settings_for(redis_url, room_service.url)):

        async def ended() -> bool:
            return (await registry.read(session_id)).ended

        await wait_until(ended, "the other one settles it")


async def test_asking_and_following_begin_the_lease_anew(
    replica: Running, raw_redis: RawRedis
) -> None:
    """It is on by default, a minute long."""
    parts, api = replica
    session_id: str = (await api.create()).json()["session_id"]
    assert 55_000 < lease_of(raw_redis, session_id) - registry_ms(raw_redis) <= 60_000
    soon = registry_ms(raw_redis) + 20_000
    raw_redis.hset(f"gr:{{default}}:s:{session_id}", "t_queued", soon)
    await api.look(session_id)
    assert lease_of(raw_redis, session_id) > soon
    raw_redis.hset(f"gr:{{default}}:s:{session_id}", "t_queued", soon)
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        assert lease_of(raw_redis, session_id) > soon


async def test_the_lease_may_be_switched_off(
    redis_url: str, raw_redis: RawRedis, room_service: RoomService
) -> None:
    """Then whoever waits, waits for ever."""
    settings = settings_for(redis_url, room_service.url, queue_lease_s=0)
    async with served(settings) as (_, api):
        session_id: str = (await api.create()).json()["session_id"]
    assert lease_of(raw_redis, session_id) == 0


async def test_a_return_to_the_line_grants_a_full_lease(
    replica: Running, raw_redis: RawRedis, begin_node: BeginNode
) -> None:
    """Its client couldn't know that it waits again."""
    _, api = replica
    node = await begin_node(ttl_s=0.5)
    session_id: str = (await api.create()).json()["session_id"]
    await node.play(session_id)

    await wait_until(lambda: lease_of(raw_redis, session_id) > 0, "it waits again")
    assert lease_of(raw_redis, session_id) - registry_ms(raw_redis) > 55_000


@pytest.mark.parametrize(
    ("limits", "refused_at"),
    [({"max_waiting_per_identity": 2}, 3), ({"max_active_per_identity": 3}, 3), ({}, 9)],
)
async def test_one_identity_may_have_so_many_sessions(
    redis_url: str,
    room_service: RoomService,
    begin_node: BeginNode,
    limits: dict[str, int],
    refused_at: int,
) -> None:
    """One on stage and those in line; the next is 429 with a time to come back, on any replica."""
    await begin_node()
    settings = settings_for(redis_url, room_service.url, **limits)
    async with served(settings) as (_, api), served(settings) as (_, other):
        for _ in range(refused_at):
            assert (await api.create()).status_code in (200, 202)
        answer = await other.create()
        assert (await other.create(identity="bob")).status_code == 202
    if not limits:
        assert answer.status_code == 202
        return
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"], problem["detail"]) == (
        429,
        "identity_limit",
        "identity_limit",
    )
    assert int(answer.headers["retry-after"]) == problem["retry_after_s"] > 0
    assert "alice" not in answer.text


async def test_a_refused_identity_is_counted_as_such(
    redis_url: str, room_service: RoomService
) -> None:
    """An outcome of its own among the admissions."""
    settings = settings_for(redis_url, room_service.url, max_waiting_per_identity=1)
    async with served(settings) as (_, api):
        await api.create()
        await api.create()
        text = (await api.get("/metrics")).text
    assert 'greenroom_admissions_total{outcome="identity_limit",pool="default"} 1.0' in text


async def test_an_outage_of_redis_settles_nothing(
    replica: Running, raw_redis: RawRedis, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look was in vain; somebody will be asked again, and the chores go on."""
    parts, api = replica
    tries: list[str] = []

    async def out(suspect: Any, *, present: bool) -> str:
        tries.append(suspect.session_id)
        raise StoreUnavailable(why="no connection")

    monkeypatch.setattr(parts.registry, "settle_waiting", out)
    session_id = await fallen_silent(api, raw_redis)
    await wait_until(lambda: tries == [session_id], "it is looked for")
    monkeypatch.undo()
    let_run_out(raw_redis, session_id)

    async def ended() -> bool:
        return (await registry.read(session_id)).ended

    await wait_until(ended, "the next look settles it")
