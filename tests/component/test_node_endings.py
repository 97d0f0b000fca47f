"""A whole node with a real registry: whatever a session's end meets, nothing is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from shared.records import SessionRequest
from shared.states import NodeState, Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until


@pytest.fixture
async def node(redis_url: str, registry: Registry) -> AsyncIterator[RunningNode]:
    """A node with one slot."""
    async with running_node(redis_url, registry) as made:
        yield made


async def used(node: RunningNode) -> int:
    """Slots taken, as the registry counts them."""
    return (await node.registry.snapshot(POOL)).nodes[0].used


async def test_a_slow_clean_up_keeps_no_worker_in_the_room_whatever_comes_after(
    node: RunningNode,
) -> None:
    """Ordered to end a second and a third time meanwhile: the room is left all the same."""
    session_id, alice = await node.play(hang_close=True)
    alice.say({"type": "stop"})
    await wait_until(lambda: "close_session" in node.journal.threads, "the close hangs")
    await node.registry.cancel(session_id, Reason.ADMIN)
    node.agent.assignments._runners[session_id].give_back("media_lost")
    node.agent.assignments._runners[session_id].lose()
    stage = node.venue.stage(session_id)
    await wait_until(lambda: not stage.workers, "the worker has left", timeout_s=10)
    assert alice.of_type("closed")
    node.journal.may_close.set()
    await node.reaches(session_id, SessionState.CLOSED)
    assert await used(node) == 0


async def test_a_runner_that_fails_at_its_first_step_frees_its_slot(node: RunningNode) -> None:
    """Whatever raised: the session ends with the fault, and the next one plays."""
    read_request = node.agent._parts.registry.request

    async def broken(session_id: str) -> SessionRequest | None:
        raise KeyError(session_id)

    node.agent._parts.registry.request = broken
    session_id = await node.open()
    record = await node.reaches(session_id, SessionState.FAILED)
    assert record.reason is Reason.SERVICE_ERROR
    assert "KeyError" in str(record.error)
    node.agent._parts.registry.request = read_request
    assert await used(node) == 0
    await node.play()


async def test_the_end_of_a_session_makes_no_failed_node_idle(node: RunningNode) -> None:
    """What the node is, only its service's life says."""
    session_id, alice = await node.play()
    heartbeat = node.agent.heartbeat
    heartbeat.say(replace(heartbeat.report, state=NodeState.ERROR, capacity=0))
    alice.say({"type": "stop"})
    await node.reaches(session_id, SessionState.CLOSED)
    waiting = await node.open()

    async def told() -> bool:
        found = (await node.registry.snapshot(POOL)).nodes[0]
        return found.state is NodeState.ERROR and found.used == 0

    await wait_until(told, "the node is in error and empty")
    assert (await node.registry.read(waiting)).state is SessionState.QUEUED


async def test_the_room_goes_with_its_session(node: RunningNode) -> None:
    """Deleted once the end is confirmed, by whoever ended it."""
    session_id, alice = await node.play()
    alice.say({"type": "stop"})
    await node.reaches(session_id, SessionState.CLOSED)
    await wait_until(lambda: session_id in node.keeper.deleted, "the room is deleted")
