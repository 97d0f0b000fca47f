"""What becomes of sessions, slots and node when the service's own process breaks?"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from shared.records import SessionRecord
from shared.states import NodeState, Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until
from tests.support.worker_child import HOSTILE, SOON_S, service_file, worker_pids

LONG_S = 30.0


def in_child(folder: Path, **options: Any) -> dict[str, Any]:
    """Options of a node whose service lives in a child."""
    return {
        "worker_mode": "process",
        "pipe_path": HOSTILE,
        "skip_validation": True,
        "data_dir": folder,
        "max_sessions_per_worker": 2,
        **options,
    }


async def plays_again(node: RunningNode, session_id: str, after: SessionRecord) -> SessionRecord:
    """Wait until the session plays under a later epoch."""
    record = after

    async def plays() -> bool:
        nonlocal record
        record = await node.registry.read(session_id)
        return record.epoch > after.epoch and record.state is SessionState.RUNNING

    await wait_until(plays, "it plays again", timeout_s=LONG_S)
    return record


async def ends(node: RunningNode, session_id: str, state: SessionState) -> SessionRecord:
    """Wait until the session has ended so."""
    record: SessionRecord | None = None

    async def over() -> bool:
        nonlocal record
        record = await node.registry.read(session_id)
        return record.state is state

    await wait_until(over, f"it is {state}", timeout_s=LONG_S)
    assert record is not None
    return record


async def is_empty(node: RunningNode) -> bool:
    """Whether the registry counts no slot of the node as used, and the node holds nothing."""
    (record,) = (await node.registry.snapshot(POOL)).nodes
    return record.used == 0 and node.agent.heartbeat.residents() == ()


async def next_child(node: RunningNode, seen: set[int]) -> int:
    """Wait until a child serves that isn't among *seen*; its process id."""

    def serves() -> bool:
        pids = set(worker_pids()) - seen
        return len(pids) == 1 and node.agent.heartbeat.report.capacity > 0

    await wait_until(serves, "a child serves", timeout_s=LONG_S)
    (pid,) = set(worker_pids()) - seen
    seen.add(pid)
    return pid


async def test_sessions_of_a_child_that_dies_return_and_play_on(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Both, with their old tickets; the node's own life goes on, its beats too."""
    async with running_node(redis_url, registry, **in_child(tmp_path)) as node:
        (one, alice), (two, bob) = await node.play(), await node.play(identity="bob")
        before = [await registry.read(one), await registry.read(two)]
        incarnation, stamp = node.agent.heartbeat.incarnation, node.agent.heartbeat.stamp
        (pid,) = worker_pids()
        os.kill(pid, signal.SIGKILL)
        after = [await plays_again(node, s, b) for s, b in zip((one, two), before, strict=True)]
        assert [record.attempt for record in after] == [2, 2]
        seen = len(alice.frames), len(bob.frames)
        await wait_until(
            lambda: len(alice.frames) > seen[0] and len(bob.frames) > seen[1], "frames for both"
        )
        assert alice.of_type("resumed")
        assert node.agent.heartbeat.incarnation == incarnation
        assert node.agent.heartbeat.stamp > stamp
        (successor,) = worker_pids()
        assert successor != pid
        for session_id, person in ((one, alice), (two, bob)):
            person.say({"type": "stop"})
            await ends(node, session_id, SessionState.CLOSED)
        await wait_until(lambda: is_empty(node), "no slot is used")
    assert worker_pids() == []


@pytest.mark.parametrize("how", ["exit", "hold_gil", "allocate"])
async def test_whatever_breaks_the_child_the_node_beats_and_no_slot_is_lost(
    redis_url: str, registry: Registry, tmp_path: Path, how: str
) -> None:
    """The one who did it and the one beside it return; their rooms are left, their slots free."""
    limit_s = 10.0 if how == "exit" else SOON_S
    options = in_child(tmp_path, worker_memory_limit_gib=0.9, worker_stuck_after_s=limit_s)
    async with running_node(redis_url, registry, **options) as node:
        bystander, _ = await node.play(identity="bob")
        hostile = await node.open(break_in="pull", break_how=how)
        node.venue.stage(hostile).enter("alice")
        (pid,) = worker_pids()

        async def both_are_back() -> bool:
            records = [await registry.read(one) for one in (bystander, hostile)]
            return all(record.attempt == 2 for record in records)

        await wait_until(both_are_back, "both return", timeout_s=LONG_S)
        assert node.agent._parts.lease.age_s() < node.settings.silent_after_s
        for session_id in (bystander, hostile):
            await registry.cancel(session_id, Reason.ADMIN)
        await wait_until(lambda: is_empty(node), "no slot is used", timeout_s=LONG_S)
        assert node.venue.stage(bystander).workers == node.venue.stage(hostile).workers == {}
        await next_child(node, {pid})
    assert worker_pids() == []


async def test_a_session_that_kills_three_children_ends_and_the_fleet_lives(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """It was alone in each, so each counts two; the nodes serve others after it."""
    options = in_child(tmp_path, max_sessions_per_worker=1)
    async with (
        running_node(redis_url, registry, **options) as a,
        running_node(redis_url, registry, node_id="node-b", **options) as b,
    ):
        poison = await a.open(break_in="create", break_how="exit")
        a.venue.stage(poison).enter("alice")
        b.venue.stage(poison).enter("alice")

        async def over() -> bool:
            await registry.sweep_nodes(POOL)
            return (await registry.read(poison)).state is SessionState.FAILED

        await wait_until(over, "the poison session has ended", timeout_s=2 * LONG_S)
        assert (await registry.read(poison)).reason is Reason.RECOVERY_LIMIT
        good = await a.open(identity="bob")
        a.venue.stage(good).enter("bob")
        b.venue.stage(good).enter("bob")

        async def plays() -> bool:
            await registry.sweep_nodes(POOL)
            return (await registry.read(good)).state is SessionState.RUNNING

        await wait_until(plays, "another session plays", timeout_s=LONG_S)


async def test_what_raises_fails_its_session_alone(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """As without a child: the service's words in the record, the neighbour plays on."""
    async with running_node(redis_url, registry, **in_child(tmp_path)) as node:
        _, bob = await node.play(identity="bob")
        for where in ("create", "pull"):
            session_id = await node.open(break_in=where, break_how="raise")
            node.venue.stage(session_id).enter("alice")
            record = await ends(node, session_id, SessionState.FAILED)
            assert record.reason is Reason.SERVICE_ERROR
            assert record.error is not None
            assert "the world fell apart" in record.error
        seen = len(bob.frames)
        await wait_until(lambda: len(bob.frames) > seen, "the neighbour plays on")


async def test_a_slot_whose_clean_up_failed_comes_back_with_a_fresh_child(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """As soon as nobody else is there: nothing is left of the session in it."""
    async with running_node(redis_url, registry, **in_child(tmp_path)) as node:
        session_id, alice = await node.play(break_in="close", break_how="raise")
        (pid,) = worker_pids()
        alice.say({"type": "stop"})
        await next_child(node, {pid})
        await wait_until(lambda: is_empty(node), "no slot is used", timeout_s=LONG_S)
        assert (await registry.read(session_id)).reason is Reason.CLIENT_STOP
        assert len(node.agent.service._lost_sessions) == 1
        assert (await node.play(identity="bob"))[1].frames


async def test_a_child_that_keeps_dying_leaves_the_node_in_error_with_its_last_lines(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Three in a row and no session to blame; the node stays, and tells."""
    async with running_node(redis_url, registry, **in_child(tmp_path)) as node:
        seen: set[int] = set()
        for _ in range(3):
            os.kill(await next_child(node, seen), signal.SIGSEGV)

        async def in_error() -> bool:
            (record,) = (await registry.snapshot(POOL)).nodes
            return record.state is NodeState.ERROR and record.capacity == 0

        await wait_until(in_error, "the node is in error", timeout_s=LONG_S)
        progress = node.agent.service._progress.now()
        assert progress is not None
        assert "died three times in a row" in progress.error


@pytest.mark.parametrize("method", ["start", "create_session"])
async def test_a_service_that_dies_while_it_comes_up_is_told_with_its_last_lines(
    redis_url: str, registry: Registry, tmp_path: Path, method: str
) -> None:
    """As a start that failed; the warm-up's session is part of it."""
    dying = f"\ndef _die(*_):\n    _say('dying in {method}')\n    _segfault()\n"
    service = service_file(tmp_path, HOSTILE, f"{dying}HostileService.{method} = _die\n")
    options = in_child(tmp_path, pipe_path=service, start_attempts=1)
    node = RunningNode(redis_url, registry, **options)
    with pytest.raises(Exception, match=rf"(?s)SIGSEGV.*dying in {method}"):
        await node.task
    assert worker_pids() == []


async def test_a_node_holds_ten_rooms_at_most(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Whatever the service keeps; more rooms need more nodes."""
    options = in_child(tmp_path, max_sessions_per_worker=64, worker_mode="in-process")
    async with running_node(redis_url, registry, **options):
        (record,) = (await registry.snapshot(POOL)).nodes
        assert record.capacity == 10
