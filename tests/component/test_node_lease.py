"""Sessions of a node share one model by the execution lease, and their pages hear of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from gpu_node import slot_watch
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support import leased_by_turns_service, leased_service
from tests.support.fake_room import FakePerson
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until

PRESS = {"type": "control_state", "controls": ["w"]}


def stages(person: FakePerson) -> list[str]:
    """The ``lease_*`` words that a page got, in order."""
    told = [body["data"].get("stage") for body in person.of_type("chunk")]  # type: ignore[attr-defined]
    return [stage for stage in told if isinstance(stage, str) and stage.startswith("lease_")]


async def moves(person: FakePerson) -> None:
    """Wait for further frames."""
    seen = len(person.frames)
    await wait_until(lambda: len(person.frames) > seen + 3, "frames", timeout_s=10)


def lease_waits() -> float:
    """How many waits were observed in this process."""
    return REGISTRY.get_sample_value("greenroom_node_lease_wait_seconds_count") or 0.0


def most_at_once(node: RunningNode) -> int:
    """How many chunks the model ever made at the same time."""
    most: int = node.agent.service.host._loaded.service.most_at_once  # type: ignore[attr-defined]
    return most


async def test_two_players_hand_the_model_over_when_one_is_idle(
    redis_url: str, registry: Registry
) -> None:
    """Each is told that it waits, that it plays and that it is parked; both play."""
    async with running_node(
        redis_url,
        registry,
        pipe_path=Path(leased_service.__file__),
        max_sessions_per_worker=2,
        control_idle_timeout_s=0.5,
    ) as node:
        people = []
        for identity in ("alice", "bob"):
            session_id = await node.open(identity=identity)
            people.append(node.venue.stage(session_id).enter(identity))
        alice, bob = people
        await wait_until(lambda: len(node.journal.created) == 2, "both are there")
        assert {config["control_idle_timeout"] for config in node.journal.created} == {0.5}
        alice.say(PRESS)
        await moves(alice)
        bob.say(PRESS)
        await moves(bob)
        alice.say(PRESS)
        await wait_until(lambda: "lease_parked" in stages(bob), "bob was parked", timeout_s=10)
        await moves(alice)
        for person in (alice, bob):
            assert {"lease_granted", "lease_parked"} <= set(stages(person))

        def is_queued() -> bool:
            """While both press, one of them waits."""
            alice.say(PRESS)
            bob.say(PRESS)
            return "lease_queued" in stages(alice) + stages(bob)

        await wait_until(is_queued, "one of them waits", timeout_s=10)
        assert most_at_once(node) == 1


@pytest.mark.parametrize("mode", ["in-process", "process"])
async def test_with_a_maximum_hold_all_players_move_at_once(
    redis_url: str, registry: Registry, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody presses a key, one chunk each in turn; an end in between disturbs nobody."""
    monkeypatch.setattr(slot_watch, "EVERY_S", 0.02)
    before = lease_waits()
    async with running_node(
        redis_url,
        registry,
        pipe_path=Path(leased_by_turns_service.__file__),
        max_sessions_per_worker=3,
        worker_mode=mode,
    ) as node:
        ids, people = [], []
        for identity in ("alice", "bob", "carol"):
            ids.append(await node.open(identity=identity, chunk_s=0.02))
            people.append(node.venue.stage(ids[-1]).enter(identity))
        for person in people:
            await moves(person)
        waiting = "greenroom_node_lease_waiting"
        await wait_until(lambda: REGISTRY.get_sample_value(waiting), "it is told that some wait")
        people[0].say({"type": "stop"})
        record = await node.reaches(ids[0], SessionState.CLOSED)
        assert record.reason is Reason.CLIENT_STOP
        for person in people[1:]:
            await moves(person)
        assert mode == "process" or most_at_once(node) == 1
    assert lease_waits() > before
