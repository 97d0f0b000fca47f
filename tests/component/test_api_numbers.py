"""What does a replica tell under the reference's names, to programs, and of empty slots?"""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from shared.play_facts import PlayFacts, play_text
from shared.records import Owner
from shared.states import Reason
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.replica import BeginNode, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

JSON = "/v1/service/metrics/json"
OF_THE_FLEET = {
    "uptime_seconds", "sessions", "session_status", "queue_depth", "workers", "session_admissions",
    "sessions_finished", "queue_wait_seconds",
}  # fmt: skip
"""Source: reference, Prometheus section; what is played is served by nodes."""


def serving(text: str) -> dict[tuple[str, ...], float]:
    """Return the reference's series by name and label values."""
    return {
        (sample.name.removeprefix("telefuser_serving_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name.startswith("telefuser_serving_")
    }


async def first_frame(node: PlayedNode, registry: Registry, session_id: str) -> None:
    """Play a session up to its first frame, as its node tells it."""
    await node.play(session_id)
    record = await registry.read(session_id)
    owner = Owner(
        node_id=node.node_id,
        incarnation=node.incarnation,
        session_id=session_id,
        epoch=record.epoch,
    )
    assert await registry.note_first_frame(owner) == "noted"


async def test_a_replica_serves_the_fleet_under_the_references_names(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """All pools together; whoever asks again for a session is no second admission."""
    node = await begin_node(capacity=2)
    async with served(settings_for(redis_url, room_service.url, queue_size=1)) as (_, api):
        ids = [(await api.create(identity=name)).json().get("session_id") for name in "abcd"]
        await node.play(ids[0])
        await node.play(ids[1])
        await node.end(ids[1], Reason.SERVICE_ERROR)
        text = (await api.get("/v1/service/metrics")).text
    names = {
        family.name.removeprefix("telefuser_serving_")
        for family in text_string_to_metric_families(text)
        if family.name.startswith("telefuser_serving_")
    }
    assert names == OF_THE_FLEET
    told = serving(text)
    assert told["sessions", "retained"] == 2
    assert told["sessions", "active"] == told["sessions", "idle"] == 1
    assert told["sessions", "waiting"] == told["queue_depth", "admission"] == 0
    assert told["session_status", "running"] == told["session_status", "assigned"] == 1
    assert told["workers", "configured"] == told["workers", "busy"] == 1
    assert told["session_admissions_total", "assigned"] == 2
    assert told["session_admissions_total", "queued"] == 1
    assert told["session_admissions_total", "rejected"] == 1
    assert told["sessions_finished_total", "failed"] == 1
    assert told["sessions_finished_total", "closed"] == 0
    assert told["queue_wait_seconds_count",] == 3


async def test_programs_get_the_same_numbers_from_every_replica(
    redis_url: str, registry: Registry, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Under the reference's keys, and by pool; only what a replica did itself is its own."""
    node = await begin_node()
    settings = settings_for(redis_url, room_service.url, queue_size=5)
    async with served(settings) as (_, one), served(settings) as (_, other):
        ids = [(await one.create(identity=name)).json()["session_id"] for name in "ab"]
        await first_frame(node, registry, ids[0])
        await asyncio.gather(one.get(JSON), other.get(JSON))  # their looks are kept for a second

        async def settled() -> bool:
            return bool(
                (await one.get(JSON)).json()["pools"][0]["durations_s"]["first_frame"]["count"]
            )

        await wait_until(settled, "the first frame is counted")
        told, again = (await one.get(JSON)).json(), (await other.get(JSON)).json()
    assert told["service_type"] == "stream"
    assert told["livekit"]["status"] == "healthy"
    assert told["uptime_seconds"] >= 0
    assert told["serving"]["summary"]["sessions"] == {
        "retained": 1, "active": 1, "idle": 0, "waiting": 1,
    }  # fmt: skip
    assert told["serving"]["counters"]["session_admissions"]["queued"] == 1
    assert again["serving"]["counters"]["session_admissions"]["queued"] == 0
    (pool,) = told["pools"]
    assert pool["pool"] == "default"
    assert pool["sessions"]["running"] == pool["sessions"]["queued"] == 1
    assert pool["slots"] == {"total": 1, "used": 1, "quarantined": 0}
    assert pool["totals"]["opened"] == 2
    assert pool["durations_s"]["first_frame"]["count"] == 1
    assert pool["durations_s"]["kill_to_first_frame"] == {
        "count": 0, "mean": None, "p50": None, "p95": None,
    }  # fmt: skip
    for part in (pool, again["pools"][0]):
        del part["longest_wait_s"]
    assert again["pools"] == [pool]


async def test_programs_are_told_how_nodes_play(
    redis_url: str, registry: Registry, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Added up over the fleet, and of each node."""
    nodes = [await begin_node(node_id=name) for name in ("node-a", "node-b", "node-c")]
    for node, fps in zip(nodes, (10.0, 16.0), strict=False):
        facts = PlayFacts(playing=2, fps=fps, fps_min=fps - 1, in_time=1.0)
        await registry.note_play("default", node.node_id, node.incarnation, play_text(facts))
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        summary = (await api.get(JSON)).json()["serving"]["summary"]
    assert summary["published_fps"] == {
        "aggregate": 52.0, "per_active_session_mean": 13.0, "per_active_session_min": 9.0,
    }  # fmt: skip
    assert summary["worker_runtime_metrics"].keys() == {"node-a", "node-b"}


async def test_an_empty_slot_is_told_alike_by_every_replica(
    redis_url: str, registry: Registry, room_service: RoomService, begin_node: BeginNode
) -> None:
    """One hand-over, one count, also on a replica that began after it."""
    node = await begin_node()
    settings = settings_for(redis_url, room_service.url, queue_size=5)
    async with served(settings) as (_, api):
        ids = [(await api.create(identity=name)).json()["session_id"] for name in "ab"]
        await first_frame(node, registry, ids[0])
        await node.end(ids[0], Reason.COMPLETED)
        await first_frame(node, registry, ids[1])
    async with served(settings) as (_, one), served(settings) as (_, other):
        for api in (one, other):
            text = (await api.get("/metrics")).text
            assert 'greenroom_slot_idle_seconds_count{pool="default"} 1.0' in text
            assert 'greenroom_first_frame_seconds_count{pool="default"} 2.0' in text
            assert 'greenroom_recovery_seconds_count{pool="default"} 0.0' in text


async def test_without_redis_the_process_alone_is_told(
    redis_url: str, room_service: RoomService
) -> None:
    """And that Redis doesn't answer, counted by why."""
    nowhere = "redis://127.0.0.1:1/0"
    async with served(settings_for(nowhere, room_service.url)) as (_, api):
        text, told = (await api.get("/metrics")).text, (await api.get(JSON)).json()
    assert told["pools"] is None
    assert told["livekit"]["redis_connected"] is False
    assert "greenroom_queue_depth{" not in text
    failed = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "greenroom_redis_errors_total" and sample.labels["why"] == "unreachable"
    ]
    assert failed[0] > 0


async def test_a_closed_replica_tells_its_numbers_to_readers_alone(
    redis_url: str, room_service: RoomService
) -> None:
    """Health needs no key; numbers say how much is served to whom."""
    key = "grk_admin_" + "x" * 32
    async with served(settings_for(redis_url, room_service.url, admin_key=key)) as (_, api):
        for path in ("/metrics", "/v1/service/metrics", JSON):
            assert (await api.get(path)).status_code == 401
            allowed = await api.get(path, headers={"Authorization": f"Bearer {key}"})
            assert allowed.status_code == 200
