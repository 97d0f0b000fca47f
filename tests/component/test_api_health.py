"""Health, readiness, metadata and metrics, as an operator's tools read them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from control_plane.app import Replica
from shared.node_profile import NodeProgress
from shared.states import NodeState, Reason
from tests.support import played_node
from tests.support.replica import BeginNode, Client, served, settings_for
from tests.support.room_service import RoomService
from tests.support.running_node import node_settings
from tests.support.wait import wait_until

HEALTH_FIELDS = {
    "status",
    "livekit_connected",
    "redis_connected",
    "workers_total",
    "workers_idle",
    "workers_busy",
    "workers_failed",
    "queued_sessions",
    "slots_total",
    "slots_free",
}


async def test_a_node_that_can_serve_makes_it_healthy(api: Client, begin_node: BeginNode) -> None:
    """healthy, ready, and the counts of one look."""
    await begin_node()

    health = (await api.get("/v1/stream/health")).json()
    ready = await api.get("/v1/service/ready")

    assert set(health) == HEALTH_FIELDS
    assert health["status"] == "healthy"
    assert (health["workers_total"], health["workers_idle"], health["workers_busy"]) == (1, 1, 0)
    assert (health["slots_total"], health["slots_free"]) == (1, 1)
    assert health["livekit_connected"]
    assert (ready.status_code, ready.json()["ready"]) == (200, True)


async def test_without_a_node_it_is_not_ready(api: Client) -> None:
    """Unhealthy and 503: nobody could be served. Health itself still answers 200."""
    health = await api.get("/v1/service/health")
    ready = await api.get("/v1/service/ready")

    assert (health.status_code, health.json()["status"]) == (200, "unhealthy")
    assert (health.json()["service_type"], health.json()["transport"]) == ("stream", "livekit")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)


async def test_a_node_that_loads_or_failed_is_not_usable(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """loading: unhealthy; one failed beside one that serves: degraded, and ready."""
    await begin_node(node_id="loading", state=NodeState.LOADING)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        loading = (await api.get("/v1/stream/health")).json()
    await begin_node(node_id="failed", state=NodeState.ERROR)
    await begin_node(node_id="well")
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        degraded = (await api.get("/v1/stream/health")).json()
        ready = await api.get("/v1/service/ready")

    assert (loading["status"], loading["workers_total"]) == ("unhealthy", 1)
    assert (degraded["status"], degraded["workers_failed"]) == ("degraded", 1)
    assert ready.status_code == 200


async def test_a_slot_whose_clean_up_hangs_is_seen(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Degraded beside a node that serves, a number of its own, and not ready where none is left."""
    node = await begin_node()
    settings = settings_for(redis_url, room_service.url, draining_timeout_s=0.3)
    async with served(settings) as (_, api):
        session_id = (await api.create()).json()["session_id"]
        await node.play(session_id)
        await api.stop(session_id)

        async def is_told() -> bool:
            await node.beat()  # it still lists the session, and confirms nothing
            numbers = Numbers((await api.get("/metrics")).text)
            return numbers.of("greenroom_slots", pool="default", kind="quarantined") == 1

        await wait_until(is_told, "the quarantined slot is counted", timeout_s=15)
        assert (await api.look(session_id)).json()["status"] == "closed"
        assert (await api.get("/v1/service/ready")).status_code == 503
        await begin_node(node_id="well")

        async def is_degraded() -> bool:
            return bool((await api.get("/v1/stream/health")).json()["status"] == "degraded")

        await wait_until(is_degraded, "health tells of the slot")


async def test_the_metadata_tell_how_the_nodes_were_set(
    api: Client, begin_node: BeginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the names that the reference gives it; without a node nobody knows."""
    metadata = (await api.get("/v1/service/metadata")).json()
    assert metadata["control_idle_timeout"] is None
    options = node_settings("redis://127.0.0.1:1/0", control_idle_timeout_s=7).told
    monkeypatch.setattr(played_node, "PROFILE", replace(played_node.PROFILE, options=options))
    await begin_node()

    async def told() -> bool:
        metadata = (await api.get("/v1/service/metadata")).json()
        set_to = [metadata[name] for name in options]
        return set_to == [7, "in-process", 1]

    await wait_until(told, "the metadata tell it")


async def test_the_metadata_tell_how_each_node_came_to_its_capacity(
    api: Client, begin_node: BeginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name that the reference gives it; a node that says nothing isn't in it."""
    await begin_node(node_id="node-b")
    profile = replace(
        played_node.PROFILE, session_capacity={"effective_capacity": 1, "devices": []}
    )
    monkeypatch.setattr(played_node, "PROFILE", profile)
    await begin_node(node_id="node-a")

    metadata = (await api.get("/v1/service/metadata")).json()

    assert metadata["session_capacity"] == {
        "node-a": {"effective_capacity": 1, "devices": []},
    }


async def test_without_livekit_it_is_not_ready(
    replica: tuple[Replica, Client], room_service: RoomService, begin_node: BeginNode
) -> None:
    """The cached probe counts."""
    parts, api = replica
    await begin_node()
    room_service.down = True
    await parts.vitals.probe_rooms()

    health = (await api.get("/v1/stream/health")).json()

    assert (health["status"], health["livekit_connected"]) == ("unhealthy", False)
    assert (await api.get("/v1/service/ready")).status_code == 503


async def test_without_redis_it_says_so(start_redis: object, room_service: RoomService) -> None:
    """Health, readiness and metrics answer, and tell that Redis is out."""
    server = start_redis()  # type: ignore[operator]
    async with served(settings_for(server.url, room_service.url)) as (_, api):
        server.kill()

        health = await api.get("/v1/stream/health")
        ready = await api.get("/v1/service/ready")
        numbers = await api.get("/metrics")

    assert (health.status_code, health.json()["redis_connected"]) == (200, False)
    assert health.json()["status"] == "unhealthy"
    assert ready.status_code == 503
    assert "greenroom_redis_up 0.0" in numbers.text


async def test_many_askers_cost_one_look(
    replica: tuple[Replica, Client], begin_node: BeginNode
) -> None:
    """Health is at most a second old, and shared by all who ask meanwhile."""
    parts, api = replica
    looks: list[str] = []
    parts.registry.observe(lambda script, _s: looks.append(script))

    for _ in range(20):
        await api.get("/v1/stream/health")

    assert looks.count("snapshot") <= 2


async def test_metadata_tells_what_is_served(api: Client, begin_node: BeginNode) -> None:
    """The model's file, how many nodes, and the smallest capacity among them."""
    await begin_node(node_id="large", capacity=4)
    await begin_node(node_id="small", capacity=2)

    metadata = (await api.get("/v1/service/metadata")).json()

    assert metadata["pipeline_file"] == "my_world.py"
    assert (metadata["num_workers"], metadata["max_sessions_per_worker"]) == (2, 2)
    assert metadata["queue_size"] == 10
    assert metadata["pools"] == ["default"]
    assert metadata["livekit_url"].startswith("ws://")
    assert set(metadata) >= HEALTH_FIELDS | {"service_type", "transport"}


async def test_metadata_tells_how_far_a_node_is_that_comes_up(
    api: Client, begin_node: BeginNode
) -> None:
    """The step, its seconds, and what the service wrote last; nothing of nodes that serve."""
    await begin_node(node_id="serving")
    node = await begin_node(node_id="starting", capacity=0)
    told = NodeProgress(step="starting", seconds=12.5, line="shard 3 of 8")
    await node.registry.note_progress(node.pool, node.node_id, node.incarnation, told)
    metadata = (await api.get("/v1/service/metadata")).json()
    assert metadata["coming_up"] == {
        "starting": {
            "step": "starting",
            "seconds": 12.5,
            "attempt": 1,
            "line": "shard 3 of 8",
            "error": "",
        }
    }


async def test_the_numbers_tell_line_sessions_slots_and_times(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Prometheus reads them; each series that the issue names is there with its value."""
    node = await begin_node(capacity=2)
    async with served(settings_for(redis_url, room_service.url, queue_size=1)) as (_, api):
        first = (await api.create()).json()["session_id"]
        await node.play(first)
        for name in ("bob", "carol", "dave"):
            await api.create(identity=name)
        numbers = Numbers((await api.get("/metrics")).text)

    assert numbers.of("greenroom_sessions", pool="default", state="running") == 1
    assert numbers.of("greenroom_sessions", pool="default", state="assigned") == 1
    assert numbers.of("greenroom_sessions", pool="default", state="queued") == 1
    assert numbers.of("greenroom_sessions", pool="default", state="draining") == 0
    assert numbers.of("greenroom_queue_depth", pool="default") == 1
    assert numbers.of("greenroom_queue_oldest_wait_seconds", pool="default") < 5
    assert numbers.of("greenroom_slots", pool="default", kind="total") == 2
    assert numbers.of("greenroom_slots", pool="default", kind="used") == 2
    assert numbers.of("greenroom_slots", pool="default", kind="quarantined") == 0
    assert numbers.of("greenroom_nodes", pool="default", state="busy") == 1
    assert numbers.of("greenroom_node_silence_seconds", pool="default", node="node-a") < 5
    assert numbers.of("greenroom_livekit_up") == numbers.of("greenroom_redis_up") == 1
    outcomes = {"assigned": 2, "queued": 1, "queue_full": 1}
    for outcome, count in outcomes.items():
        name = "greenroom_admissions_total"
        assert numbers.of(name, pool="default", outcome=outcome) == count
    assert numbers.of("greenroom_script_seconds_count", script="open_session") == 4
    assert numbers.of("greenroom_sessions_opened_total", pool="default") == 3


async def test_ends_and_deaths_are_counted_by_reason(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Totals are the registry's own, so each replica shows the same."""
    node = await begin_node()
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        session_id = (await api.create()).json()["session_id"]
        await node.play(session_id)
        await node.end(session_id, Reason.COMPLETED)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        numbers = Numbers((await api.get("/v1/service/metrics")).text)

    ended = "greenroom_sessions_ended_total"
    assert numbers.of(ended, pool="default", reason="completed") == 1
    assert numbers.of(ended, pool="default", reason="recovery_limit") == 0


async def test_the_waits_in_line_are_one_histogram_on_every_replica(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Each wait is counted once, by the registry; a replica that began later shows it too."""
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        await api.create()
        await begin_node()
        first = Numbers((await api.get("/metrics")).text)
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        second = Numbers((await api.get("/metrics")).text)

    for numbers in (first, second):
        assert numbers.of("greenroom_queue_wait_seconds_count", pool="default") == 1
        assert numbers.of("greenroom_queue_wait_seconds_bucket", pool="default", le="3600") == 1
        assert numbers.of("greenroom_readmission_wait_seconds_count", pool="default") == 0
    waited_s = "greenroom_queue_wait_seconds_sum"
    assert first.of(waited_s, pool="default") == second.of(waited_s, pool="default") > 0


async def test_no_number_names_a_session_or_a_person(api: Client, begin_node: BeginNode) -> None:
    """Labels come from closed sets."""
    node = await begin_node()
    session_id = (await api.create(identity="alice-in-person")).json()["session_id"]
    await node.play(session_id)

    text = (await api.get("/metrics")).text

    assert session_id not in text
    assert "alice-in-person" not in text


async def test_the_probe_sees_livekit_come_back(
    replica: tuple[Replica, Client], room_service: RoomService
) -> None:
    """While LiveKit is out it is asked again soon."""
    parts, _ = replica
    room_service.down = True
    await parts.vitals.probe_rooms()
    room_service.down = False

    await wait_until(lambda: parts.vitals.rooms_reachable, "LiveKit is seen again")


class Numbers:
    """What a Prometheus would have read."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def of(self, name: str, **labels: str) -> float:
        """Return the one sample of this name and these labels."""
        found = [s.value for s in self._samples if s.name == name and s.labels == labels]
        assert len(found) == 1, f"{name} {labels}: {found}"
        return float(found[0])


async def test_whoever_asks_often_costs_redis_no_more(replica: tuple[Replica, Client]) -> None:
    """These are for everybody, so nobody may wear Redis down with them."""
    calls: list[str] = []
    running, api = replica
    running.registry.observe(lambda script, _seconds: calls.append(script))
    look = running.registry.inspection.look
    looks = 0

    async def counted(*names: object, **more: object) -> object:
        nonlocal looks
        looks += 1
        return await look(*names, **more)  # type: ignore[arg-type]

    running.registry.inspection.look = counted  # type: ignore[method-assign, assignment]
    begun_s = time.monotonic()
    for _ in range(50):
        for path in ("/v1/service/metadata", "/v1/service/ready", "/v1/stream/health"):
            await api.get(path)
    seconds = time.monotonic() - begun_s + 1
    assert calls.count("snapshot") <= seconds + 1
    assert looks <= 3 * (seconds + 1)
