"""A node offers what its service says that fits, tells how it came to that, and evicts nobody."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.api.health import health_of
from gpu_node import slot_watch
from shared.errors import ServiceLoadFailed
from shared.records import SessionLimits
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support import full_service, pooled_service, sized_service
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until

SIZED = Path(sized_service.__file__)


async def told_by(node: RunningNode) -> dict[str, object]:
    """What the registry has of the node's own words."""
    facts = await node.registry.inspection.look(POOL, nodes=[node.settings.node_id])
    told: dict[str, object] = json.loads(facts.nodes[0].record["session_capacity"])
    return told


@pytest.mark.parametrize(("asked", "slots"), [("auto", 3), (2, 2), (9, 3)])
async def test_the_operators_number_only_lowers_what_fits(
    redis_url: str, registry: Registry, asked: str | int, slots: int
) -> None:
    """And how it came about stands in the registry."""
    async with running_node(
        redis_url, registry, pipe_path=SIZED, max_sessions_per_worker=asked
    ) as node:
        assert (await registry.snapshot(POOL)).nodes[0].capacity == slots
        told = await told_by(node)
        assert (told["computed_capacity"], told["effective_capacity"]) == (3, slots)
        assert told["configured_limit"] == (None if asked == "auto" else asked)
        assert told["max_fps"] == 16


async def test_a_node_without_room_ends_with_the_numbers(
    redis_url: str, registry: Registry
) -> None:
    """Rather than to stand there without a slot."""
    node = RunningNode(redis_url, registry, pipe_path=Path(full_service.__file__), start_attempts=1)
    with pytest.raises(ServiceLoadFailed, match=r"not one session fits on device 0 .*3\.00 GiB"):
        await node.task


async def test_a_lowered_number_ends_nobodys_session(redis_url: str, registry: Registry) -> None:
    """Who plays plays on; the next one comes when there are fewer than the new number."""
    async with running_node(
        redis_url, registry, pipe_path=SIZED, max_sessions_per_worker=2
    ) as node:
        players = [await node.play(identity=name) for name in ("alice", "bob")]
        lowered = replace(node.agent.heartbeat.report, capacity=1)
        node.agent.heartbeat.say(lowered)

        async def is_lowered() -> bool:
            return (await registry.snapshot(POOL)).nodes[0].capacity == 1

        await wait_until(is_lowered, "the registry knows")
        third = await node.open(identity="carol")
        node.venue.stage(third).enter("carol")
        seen = [len(person.frames) for _, person in players]
        await wait_until(
            lambda: all(
                len(person.frames) > before + 3
                for (_, person), before in zip(players, seen, strict=True)
            ),
            "both play on",
        )
        players[0][1].say({"type": "stop"})
        ended = await node.reaches(players[0][0], SessionState.CLOSED)
        assert ended.reason is Reason.CLIENT_STOP
        assert (await registry.read(third)).state is SessionState.QUEUED
        players[1][1].say({"type": "stop"})
        await node.reaches(third, SessionState.RUNNING)


async def test_a_slot_that_isnt_clean_is_kept_back_everywhere(
    redis_url: str, registry: Registry
) -> None:
    """In the service's pool, in the node's list and in the registry, where it is alerted."""
    async with running_node(
        redis_url,
        registry,
        pipe_path=Path(pooled_service.__file__),
        max_sessions_per_worker="auto",
    ) as node:
        torn, alice = await node.play(fail_in="cleaning", limits=SessionLimits(draining_s=0.3))
        alice.say({"type": "stop"})

        async def is_quarantined() -> bool:
            await registry.sweep_deadlines(POOL)
            return (await registry.snapshot(POOL)).nodes[0].quarantined == 1

        await wait_until(is_quarantined, "the slot is quarantined", timeout_s=10)
        lost = (await node.agent.service.host.runtime_metrics())["slots"]["quarantined"]
        assert [(slot["slot"], slot["owner"]) for slot in lost] == [(0, torn)]
        for _ in range(3):
            session_id, person = await node.play(identity="bob")
            person.say({"type": "stop"})
            await node.reaches(session_id, SessionState.CLOSED)
        assert (await registry.snapshot(POOL)).nodes[0].quarantined == 1


async def test_leaked_slots_are_offered_to_nobody(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that forgets to give its slots back ends as a node that isn't ready."""
    monkeypatch.setattr(slot_watch, "EVERY_S", 0.05)
    async with running_node(
        redis_url,
        registry,
        pipe_path=Path(pooled_service.__file__),
        max_sessions_per_worker="auto",
    ) as node:
        for left in (1, 0):
            session_id, alice = await node.play(fail_in="leak")
            alice.say({"type": "stop"})
            await node.reaches(session_id, SessionState.CLOSED)

            async def is_lowered(left: int = left) -> bool:
                return (await registry.snapshot(POOL)).nodes[0].capacity == left

            await wait_until(is_lowered, f"{left} slots are offered", timeout_s=10)
        health = health_of((await registry.snapshot(POOL),), livekit_up=True)
        assert health["status"] == "unhealthy"
