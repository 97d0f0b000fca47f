"""A node's page of numbers: the reference's names, and how soon a picture answers a control."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from shared.play_facts import read_play
from shared.states import SessionState
from shared.store import Registry
from tests.support import leased_service
from tests.support.redis_server import POOL
from tests.support.running_node import running_node
from tests.support.wait import wait_until

PLAYED_HERE = {
    "action_to_first_frame_seconds", "actions", "batch_items", "batch_size", "batches",
    "chunk_latency_seconds", "chunks", "errors", "frames", "migrations", "model_outputs",
    "pipeline_stage_latency_seconds", "published_fps", "scheduler_mode_info",
    "slo_attainment_ratio", "slo_budget_seconds", "slo_chunks", "uptime_seconds",
    "worker_active_sessions", "worker_busy_ratio", "worker_capacity",
    "worker_chunk_latency_seconds", "worker_maximum_batch_size",
    "worker_pipeline_stage_last_latency_seconds", "worker_sessions", "worker_up",
}  # fmt: skip
"""Source: reference, Prometheus section; `mean_batch_size` needs a service that makes batches."""
PRESS = {"type": "control_state", "controls": ["w"]}

Numbers = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Numbers:
    """Return each series with its value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_node_serves_what_it_plays_under_the_references_names(
    redis_url: str, registry: Registry, unused_tcp_port: int
) -> None:
    """One worker is one node; results and stages are closed sets; no session is named."""
    async with (
        running_node(redis_url, registry, metrics_port=unused_tcp_port) as node,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}") as client,
    ):
        _, alice = await node.play()
        await wait_until(lambda: len(alice.frames) > 5, "it plays")
        text = (await client.get("/metrics")).text
    told = {
        family.name.removeprefix("telefuser_serving_")
        for family in text_string_to_metric_families(text)
        if family.name.startswith("telefuser_serving_")
    }
    assert told - {"mean_batch_size"} == PLAYED_HERE
    numbers = read(text)
    here = (("gpu", "cpu"), ("worker_id", "node-a"))
    assert numbers["telefuser_serving_worker_sessions", here] == 1
    assert numbers["telefuser_serving_worker_busy_ratio", here] == 1
    assert numbers["telefuser_serving_worker_up", here] == 1
    assert numbers["telefuser_serving_worker_active_sessions", here] >= 1
    assert numbers["telefuser_serving_published_fps", (("scope", "aggregate"),)] > 0
    for theirs, ours in (("frames", "frames"), ("chunks", "chunks")):
        published = numbers[f"telefuser_serving_{theirs}_total", (("result", "published"),)]
        assert published == numbers[f"greenroom_node_{ours}_total", ()] > 0
    met, missed = (
        numbers["telefuser_serving_slo_chunks_total", (("result", word),)]
        for word in ("met", "missed")
    )
    assert numbers["telefuser_serving_slo_attainment_ratio", ()] == met / (met + missed)
    assert "default-" not in text


async def test_a_node_tells_the_registry_how_it_plays(redis_url: str, registry: Registry) -> None:
    """For whoever looks at the nodes without a Prometheus."""
    async with running_node(redis_url, registry) as node:
        await node.play()

        async def told() -> str:
            (facts,) = (await registry.inspection.look(POOL, nodes=["node-a"])).nodes
            return facts.record.get("play", "")

        text = await wait_until(told, "it tells how it plays", timeout_s=20)
    facts = read_play(text)
    assert facts is not None
    assert facts.playing == 1
    assert facts.fps_min is not None
    assert facts.fps is not None
    assert 0 < facts.fps_min <= facts.fps
    assert facts.in_time is not None
    assert None not in (facts.chunk_p95_s, facts.late_p95_s)


async def test_a_control_is_answered_by_a_picture_once(
    redis_url: str, registry: Registry, unused_tcp_port: int
) -> None:
    """Whichever process the service lives in, its chunks tell when they were begun."""
    async with (
        running_node(
            redis_url,
            registry,
            metrics_port=unused_tcp_port,
            worker_mode="process",
            pipe_path=Path(leased_service.__file__),
        ) as node,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}") as client,
    ):

        async def reactions() -> float:
            numbers = read((await client.get("/metrics")).text)
            return numbers["greenroom_node_action_to_first_frame_seconds_count", ()]

        before = await reactions()
        session_id = await node.open()
        alice = node.venue.stage(session_id).enter("alice")
        await node.reaches(session_id, SessionState.RUNNING)
        alice.say(PRESS)
        await wait_until(lambda: len(alice.frames) > 8, "frames", timeout_s=20)
        assert await reactions() == before + 1
