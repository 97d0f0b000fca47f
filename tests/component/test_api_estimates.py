"""Estimates over HTTP: unknown until learned, the same everywhere, and held against the truth."""

from __future__ import annotations

from shared.states import Reason
from tests.support.event_stream import following
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, served, settings_for
from tests.support.room_service import RoomService

HOLDS = "gr:{default}:holds"


def learn(raw: RawRedis, *holds_ms: int) -> None:
    """Let the registry have seen sessions that held their slots so long."""
    raw.rpush(HOLDS, *holds_ms)


async def test_every_answer_to_a_waiting_client_has_the_estimate(
    redis_url: str, room_service: RoomService, raw_redis: RawRedis, begin_node: BeginNode
) -> None:
    """POST, GET, the queue and the events tell the same, with its range."""
    await begin_node()
    learn(raw_redis, 60_000, 60_000, 60_000)
    async with served(settings_for(redis_url, room_service.url)) as (parts, api):
        await api.create()
        created = (await api.create(identity="bob")).json()
        seen = (await api.look(created["session_id"])).json()
        (pool,) = (await api.get("/v1/queue")).json()["pools"]
        async with following(parts.app, created["session_id"]) as stream:
            told = (await stream.event("queued")).data
    for answer in (created, seen, pool["waiting"][0]):
        assert 55 <= answer["estimated_wait_s"] <= 60
        low, high = answer["estimated_wait_range_s"]
        assert low <= answer["estimated_wait_s"] <= high
    assert 55 <= told["eta"] <= 60  # type: ignore[operator]
    assert told["eta_range"] is not None
    assert (pool["usual_hold_s"], pool["learned_from"]) == (60, 3)


async def test_a_served_client_is_told_no_wait(
    api: Client, raw_redis: RawRedis, begin_node: BeginNode
) -> None:
    """There is none: no place, no estimate."""
    await begin_node()
    learn(raw_redis, 60_000, 60_000, 60_000)
    created = (await api.create()).json()
    assert created["status"] == "assigned"
    assert created["estimated_wait_s"] is created["estimated_wait_range_s"] is None


async def test_without_a_node_the_estimate_is_unknown_not_zero(
    api: Client, raw_redis: RawRedis
) -> None:
    """All nodes are away."""
    learn(raw_redis, 60_000, 60_000, 60_000)
    created = (await api.create()).json()
    assert created["status"] == "queued"
    assert created["estimated_wait_s"] is None


async def test_what_sessions_show_is_learned_once_for_all_replicas(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """A replica that starts now knows what the pool's sessions have shown; failures don't count."""
    node = await begin_node(capacity=1)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        for reason in (Reason.COMPLETED, Reason.SERVICE_ERROR) * 3:
            session_id = (await api.create()).json()["session_id"]
            await node.play(session_id)
            await node.end(session_id, reason)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        await api.create()
        waiting = (await api.create(identity="bob")).json()
        (pool,) = (await api.get("/v1/queue")).json()["pools"]
    assert pool["learned_from"] == 3
    assert waiting["estimated_wait_s"] == 1.0


async def test_past_error_is_a_metric(
    redis_url: str, room_service: RoomService, raw_redis: RawRedis, begin_node: BeginNode
) -> None:
    """What was promised at the start is compared with the wait, whichever replica promised."""
    node = await begin_node()
    learn(raw_redis, 60_000, 60_000, 60_000)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        first = (await api.create()).json()["session_id"]
        second = (await api.create(identity="bob")).json()
        await node.play(first)
        await node.end(first, Reason.COMPLETED)
        assert (await api.look(second["session_id"])).json()["status"] == "assigned"
        text = (await api.get("/metrics")).text
    count = 'greenroom_estimate_error_seconds_count{pool="default",side="sooner"} 1.0'
    assert count in text
    assert 'greenroom_estimates_total{outcome="sooner",pool="default"} 1.0' in text
    assert 'greenroom_estimates_total{outcome="within",pool="default"} 0.0' in text
    assert raw_redis.hget(f"gr:{{default}}:s:{second['session_id']}", "promised") is not None


async def test_a_repeated_create_changes_no_promise(
    redis_url: str, room_service: RoomService, raw_redis: RawRedis, begin_node: BeginNode
) -> None:
    """The first one is what counts."""
    await begin_node()
    learn(raw_redis, 60_000, 60_000, 60_000)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        await api.create()
        headers, body = {"Idempotency-Key": "k"}, {"identity": "bob"}
        first = (await api.post("/v1/stream/sessions", json=body, headers=headers)).json()
        record = f"gr:{{default}}:s:{first['session_id']}"
        promised = raw_redis.hget(record, "promised")
        learn(raw_redis, *[600_000] * 60)
        again = (await api.post("/v1/stream/sessions", json=body, headers=headers)).json()
    assert again["session_id"] == first["session_id"]
    assert raw_redis.hget(record, "promised") == promised is not None
