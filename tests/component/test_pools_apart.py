"""A pool that can't be read takes no other pool of the same replica along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from control_plane.app import Replica
from control_plane.events_hub import EventsHub
from control_plane.lines import Lines
from control_plane.metrics import Metrics
from control_plane.reconciler import UNKNOWN_FOR_S
from control_plane.room_chores import RoomChores
from control_plane.sweeper import Sweeper
from control_plane.vitals import Vitals
from shared.errors import StoreUnavailable
from shared.records import OpenRequest, SessionLimits, SessionRequest, Snapshot
from shared.rooms.tokens import room_metadata
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica import BeginNode, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

BROKEN, WELL = "a-broken", "well"
LEASE_S = 3.0


async def waiting_in(registry: Registry, pool: str) -> str:
    """Let somebody wait there; returns the session's id."""
    session_id = f"{pool}-{'b' * 26}"
    await registry.open(
        OpenRequest(
            pool=pool,
            session_id=session_id,
            request=SessionRequest(identity="ann"),
            limits=SessionLimits(queued_s=LEASE_S),
            queue_size=10,
        )
    )
    return session_id


@pytest.fixture
def break_pool(raw_redis: RawRedis) -> Iterator[Callable[[], None]]:
    """Let somebody else's keys stand where a pool's are; all pools go in the end."""

    def break_it() -> None:
        for name in ("ctr", "q", "nodes"):
            raw_redis.delete(f"gr:{{{BROKEN}}}:{name}")
            raw_redis.set(f"gr:{{{BROKEN}}}:{name}", "somebody else's")

    yield break_it
    raw_redis.flushall()


@asynccontextmanager
async def running_hub(registry: Registry, *pools: str) -> AsyncIterator[EventsHub]:
    """A hub for these pools."""
    hub = EventsHub(
        registry=registry,
        lines=Lines(registry=registry, pools=pools),
        metrics=Metrics(),
        pools=pools,
        queue_lease_s=LEASE_S,
    )
    tasks = [asyncio.create_task(hub.run()), asyncio.create_task(hub.listen())]
    yield hub
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_other_pools_are_swept(
    registry: Registry, raw_redis: RawRedis, break_pool: Callable[[], None]
) -> None:
    """Deadlines fire there, whichever pool comes first."""
    await waiting_in(registry, WELL)
    break_pool()
    chores = cast("RoomChores", None)  # nothing is due that would need any
    sweeper = Sweeper(registry=registry, chores=chores, pools=(BROKEN, WELL))
    before = raw_redis.hget(f"gr:{{{WELL}}}:ctr", "rt")
    with pytest.raises(StoreUnavailable):
        await sweeper.sweep()
    assert raw_redis.hget(f"gr:{{{WELL}}}:ctr", "rt") != before


async def test_whoever_follows_another_pool_is_told_and_kept_alive(
    registry: Registry, raw_redis: RawRedis, break_pool: Callable[[], None]
) -> None:
    """Signs of life go on, a newcomer gets in, and an end is told."""
    await waiting_in(registry, BROKEN)
    well = await waiting_in(registry, WELL)
    async with running_hub(registry, BROKEN, WELL) as hub:
        ill = hub.follow(f"{BROKEN}-{'b' * 26}")
        follower = hub.follow(well)
        await ill.first()
        await follower.first()
        break_pool()
        record = f"gr:{{{WELL}}}:s:{well}"
        before = int(str(raw_redis.hget(record, "t_queued")))
        await wait_until(
            lambda: int(str(raw_redis.hget(record, "t_queued"))) > before + 1_000 * LEASE_S,
            "its lease is renewed for longer than it lasts",
            timeout_s=20,
        )
        newcomer = (await hub.follow(well).first()).record
        assert newcomer is not None
        assert newcomer.state is SessionState.QUEUED
        await registry.cancel(well, Reason.CLIENT_STOP)

        async def ends() -> None:
            while (sight := await follower.next()) is not None:
                if sight.record is None or sight.record.ended:
                    return

        await asyncio.wait_for(ends(), 20)


async def test_the_other_pools_are_compared(
    redis_url: str, room_service: RoomService, break_pool: Callable[[], None]
) -> None:
    """Rooms nobody knows go there, and ledger, nodes and rooms are held against each other."""
    settings = settings_for(redis_url, room_service.url, pool=f"{BROKEN},{WELL}")
    stray = f"{WELL}-{'s' * 26}"
    async with served(settings) as (parts, api):
        break_pool()
        room_service.list_room(stray, room_metadata("test", 1))
        for now_s in (0.0, UNKNOWN_FOR_S):
            with pytest.raises(StoreUnavailable):
                await parts.reconciler.look(now_s)
        await wait_until(
            lambda: [call.session_id for call in room_service.made("DeleteRoom")] == [stray],
            "the room is gone",
        )
        with pytest.raises(StoreUnavailable):
            await parts.truth_watch().check(again_after_s=0)
        told = (await api.get("/metrics")).text
        assert f'greenroom_truth_differences{{part="room",pool="{WELL}"}} 1.0' in told


async def test_new_sessions_of_the_other_pools_are_served(
    redis_url: str,
    registry: Registry,
    room_service: RoomService,
    begin_node: BeginNode,
    break_pool: Callable[[], None],
) -> None:
    """The replica stays behind its load balancer, and says which pool it can't read."""
    settings = settings_for(redis_url, room_service.url, pool=f"{BROKEN},{POOL}")
    await begin_node()
    async with served(settings) as (parts, api):
        break_pool()
        await wait_until(lambda: _is_dark(parts), "it has looked")
        ready = await api.get("/v1/service/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["redis_connected"] is False
        (concern,) = [
            text
            for text in (await api.get("/v1/service/health")).json()["concerns"]
            if BROKEN in text
        ]
        assert "nobody is served there" in concern
        assert (await api.create(pool=POOL)).json()["status"] == "assigned"
        numbers = (await api.get("/metrics")).text
        assert "greenroom_redis_up 0.0" in numbers
        assert f'pool="{POOL}"' in numbers
        overview = await parts.feed.overview()
        assert [pool["pool"] for pool in overview["pools"]] == [POOL]


async def _is_dark(parts: Replica) -> bool:
    await parts.vitals.snapshots()
    return parts.vitals.dark_pools == (BROKEN,)


async def test_pools_that_hang_keep_operators_from_none_of_the_others(
    redis_url: str,
    registry: Registry,
    room_service: RoomService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many: they are waited for together. Once nothing can be read, none is named."""
    hanging = {f"hangs-{number}" for number in range(4)}
    settings = settings_for(redis_url, room_service.url, pool=",".join((*sorted(hanging), POOL)))
    async with served(settings) as (parts, _):
        whole = parts.registry.snapshot
        is_told = asyncio.Event()

        async def partly(pool: str) -> Snapshot:
            if pool not in hanging:
                is_told.set()
                return await whole(pool)
            await is_told.wait()  # in a row the first one would wait for ever
            raise StoreUnavailable(why="no answer in time")

        monkeypatch.setattr(parts.registry, "snapshot", partly)
        overview = await asyncio.wait_for(parts.feed.overview(), 20)
        assert [pool["pool"] for pool in overview["pools"]] == [POOL]
        is_told.clear()
        vitals = Vitals(registry=parts.registry, rooms=parts.rooms, pools=settings.pools)
        (snapshot,) = await asyncio.wait_for(vitals.snapshots(), 20)
        assert (snapshot.pool, set(vitals.dark_pools)) == (POOL, hanging)
        hanging.add(POOL)
        is_told.set()
        await wait_until(lambda: _is_blind(vitals), "nothing can be read")
        assert vitals.dark_pools == ()


async def _is_blind(vitals: Vitals) -> bool:
    try:
        await vitals.snapshots()
    except StoreUnavailable:
        return True
    return False
