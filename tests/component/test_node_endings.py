"""A whole node with a real registry: whatever a session's end meets, nothing is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from gpu_node import ending
from shared.errors import RoomsUnavailable
from shared.records import SessionRequest
from shared.states import NodeState, Reason, SessionState
from shared.store import Registry
from tests.support.fake_room import FakeRoom
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


async def test_the_last_words_reach_people_whatever_becomes_of_the_worker_s(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker says just before it leaves may be lost, so the media server says it."""
    say = FakeRoom.send_status

    async def send_status(room: FakeRoom, body: Mapping[str, object]) -> None:
        if body["type"] != "closed" and "error" not in body:
            await say(room, body)

    monkeypatch.setattr(FakeRoom, "send_status", send_status)
    session_id = await node.open(fail_in="pull")
    alice = node.venue.stage(session_id).enter("alice")
    await node.reaches(session_id, SessionState.FAILED)
    await wait_until(lambda: alice.of_type("closed"), "the end is heard")
    assert len(alice.of_type("closed")) == 1
    assert ["fell apart" in str(one["error"]) for one in alice.statuses if "error" in one] == [True]


async def test_a_media_server_that_doesn_t_pass_words_on_leaves_them_to_the_worker(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said once, all the same."""

    async def send_status(_session_id: str, _body: Mapping[str, object]) -> None:
        raise RoomsUnavailable(why="the test says so")

    monkeypatch.setattr(node.keeper, "send_status", send_status)
    session_id, alice = await node.play()
    alice.say({"type": "stop"})
    await node.reaches(session_id, SessionState.CLOSED)
    assert len(alice.of_type("closed")) == 1


async def test_the_room_stays_until_the_last_words_have_arrived(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot doesn't wait for that: somebody else may be on it by then."""
    monkeypatch.setattr(ending, "_ARRIVES_WITHIN_S", 3600.0)
    session_id, alice = await node.play()
    waiting = await node.open()
    alice.say({"type": "stop"})
    await node.reaches(session_id, SessionState.CLOSED)
    await node.reaches(waiting, SessionState.JOINING_ROOM)
    assert session_id not in node.keeper.deleted
    assert alice.of_type("closed")
