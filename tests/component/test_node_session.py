"""A session lives on a node from its assignment to its end, whatever ends it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from shared.records import SessionLimits
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until


@pytest_asyncio.fixture
async def node(redis_url: str, registry: Registry) -> AsyncIterator[RunningNode]:
    """One node with one slot."""
    async with running_node(redis_url, registry) as node:
        yield node


async def test_a_session_runs_to_its_natural_end(node: RunningNode) -> None:
    """Frames in order, each chunk's metadata, `done`, `closed`; then slot and room are free."""
    session_id = await node.open(chunks=3)
    alice = node.venue.stage(session_id).enter("alice")
    record = await node.reaches(session_id, SessionState.CLOSED)

    assert record.reason is Reason.COMPLETED
    assert record.pipeline_session_id == "pipeline-1"
    assert [frame.frame_id for frame in alice.frames] == [1, 2, 3, 4, 5, 6]
    assert [int(frame.image[0, 0, 0]) for frame in alice.frames] == [0, 1, 2, 3, 4, 5]
    kinds = [str(body["type"]) for body in alice.statuses]
    assert kinds[0] == "chunk"
    assert alice.statuses[0]["data"]["stage"] == "worker_running"  # type: ignore[index]
    assert kinds.count("first_frame") == 1
    assert [body["index"] for body in alice.of_type("chunk")[1:]] == [0, 1, 2]
    (done,) = alice.of_type("done")
    assert (done["total_chunks"], done["published_frames"]) == (3, 6)
    assert kinds[-2:] == ["draining", "closed"]
    assert alice.statuses[-1]["reason"] == "completed"
    assert node.journal.closed == ["pipeline-1"]
    await wait_until(lambda: session_id in node.keeper.deleted, "the room is deleted")
    assert (await node.registry.snapshot(POOL)).nodes[0].used == 0


async def test_the_service_hears_what_the_client_asked_for(node: RunningNode) -> None:
    """Its own config, the session's id and the idle limit; the model waits for the controller."""
    session_id = await node.open(chunks=1, mood="blue")
    await wait_until(lambda: node.venue.requests, "the worker comes")
    assert node.journal.created == []
    node.venue.stage(session_id).enter("alice")
    await node.reaches(session_id, SessionState.CLOSED)
    assert node.journal.created == [
        {"chunks": 1, "mood": "blue", "session_id": session_id, "control_idle_timeout": 10.0}
    ]


async def test_no_service_call_runs_on_the_agents_thread(node: RunningNode) -> None:
    """Three calls share the service loop; the blocking ones run beside it."""
    await node.play(chunks=2)
    await wait_until(lambda: node.journal.closed, "the session is over")
    threads = node.journal.threads
    assert threads["create_session"] == threads["pull_chunks"] == threads["push_chunk"]
    assert threads["close_session"] != threads["create_session"]
    assert threading.get_ident() not in threads.values()


async def test_controls_reach_the_service_and_are_acknowledged(node: RunningNode) -> None:
    """What was said before the pipeline session existed counts too, the newest state of it."""
    session_id = await node.open()
    node.venue.opened.clear()
    alice = node.venue.stage(session_id).enter("alice")
    node.venue.opened.set()
    await wait_until(lambda: node.venue.stage(session_id).rooms(), "the worker is in the room")
    alice.say({"type": "control_state", "controls": ["w"], "seq": 1})
    alice.say({"type": "control_state", "controls": ["w", "d"], "seq": 2})
    await wait_until(lambda: len(alice.of_type("control_ack")) == 2, "both are acknowledged")
    await wait_until(lambda: node.journal.pushed, "the service got a control")
    alice.say({"type": "prompt", "prompt": "a forest", "seq": 3})
    await wait_until(lambda: len(alice.of_type("control_ack")) == 3, "the prompt is acknowledged")
    await wait_until(
        lambda: node.journal.pushed[-1] == {"type": "prompt", "prompt": "a forest"}, "it arrived"
    )
    assert {"type": "control_state", "controls": ["w", "d"]} in node.journal.pushed


async def test_nonsense_is_answered_and_reaches_nobody(node: RunningNode) -> None:
    """A refused message names its fault; the session goes on."""
    session_id, alice = await node.play()
    bob = node.venue.stage(session_id).enter("bob", role=None)
    alice.say(b"{not json")
    alice.say({"type": "control_state", "controls": ["w", "w"]})
    alice.say({"type": "control_state", "controls": ["F12"]})
    alice.say({"type": "prompt", "prompt": "x", "session_id": "somebody-else's"})
    alice.say(b'{"type":"prompt","prompt":"' + b"x" * 13 * 1024 + b'"}')
    alice.say({"type": "reset"}, topic="tf.asset")
    bob.say({"type": "reset"})
    await wait_until(lambda: len(alice.of_type("control_rejected")) == 6, "six refusals")
    assert [body["code"] for body in alice.of_type("control_rejected")] == [
        "bad_json",
        "duplicate_control",
        "unknown_control",
        "other_session",
        "too_large",
        "not_controller",
    ]
    assert node.journal.pushed == []
    assert (await node.registry.read(session_id)).state is SessionState.RUNNING


async def test_stop_from_the_room_ends_the_session(node: RunningNode) -> None:
    """The client's own stop: acknowledged, drained, closed."""
    session_id, alice = await node.play()
    alice.say({"type": "stop", "seq": 9})
    record = await node.reaches(session_id, SessionState.CLOSED)
    assert record.reason is Reason.CLIENT_STOP
    assert alice.of_type("control_ack")[0]["seq"] == 9
    assert alice.of_type("closed")[0]["reason"] == "client_stop"
    assert node.journal.closed == ["pipeline-1"]
    assert {"type": "stop"} in node.journal.pushed


async def test_cancelling_ends_a_running_session(node: RunningNode) -> None:
    """DELETE drains it; the node confirms when it has cleaned up."""
    session_id, alice = await node.play()
    record = await node.registry.cancel(session_id, Reason.CLIENT_STOP)
    assert record.state is SessionState.DRAINING
    record = await node.reaches(session_id, SessionState.CLOSED)
    assert record.reason is Reason.CLIENT_STOP
    assert alice.of_type("closed")
    assert node.journal.closed == ["pipeline-1"]


async def test_cancelling_ends_a_session_that_waits_for_its_controller(node: RunningNode) -> None:
    """No pipeline session was made, so none is closed."""
    session_id = await node.open()
    await node.reaches(session_id, SessionState.JOINING_ROOM)
    await node.registry.cancel(session_id, Reason.CLIENT_STOP)
    await node.reaches(session_id, SessionState.CLOSED)
    assert node.journal.created == []
    assert node.journal.closed == []


async def test_cancelling_before_the_node_knows_frees_the_slot_all_the_same(
    node: RunningNode,
) -> None:
    """The node answers the kill of a session that it never started."""
    node.link.cut = True
    session_id = await node.open()
    await node.registry.cancel(session_id, Reason.CLIENT_STOP)
    node.link.cut = False
    await node.reaches(session_id, SessionState.CLOSED)
    assert (await node.registry.snapshot(POOL)).nodes[0].used == 0


@pytest.mark.parametrize(
    ("fail_in", "reason", "words"),
    [
        ("create", Reason.SERVICE_ERROR, "RuntimeError: no memory left for a world"),
        ("config", Reason.INVALID_CONFIG, "unknown key 'fail_in'"),
        ("pull", Reason.SERVICE_ERROR, "RuntimeError: the world fell apart"),
        ("frame", Reason.SERVICE_ERROR, "Frame 0 has shape (8, 8)"),
        ("error_chunk", Reason.SERVICE_ERROR, "the model gave up"),
        ("half_character", Reason.SERVICE_ERROR, "no file called w?rld"),
    ],
)
async def test_a_service_fault_ends_the_session_with_the_services_words(
    node: RunningNode, fail_in: str, reason: Reason, words: str
) -> None:
    """The fault is told to registry and room, the slot is freed, the node goes on."""
    session_id = await node.open(fail_in=fail_in)
    alice = node.venue.stage(session_id).enter("alice")
    record = await node.reaches(session_id, SessionState.FAILED)
    assert record.reason is reason
    assert words in str(record.error)
    assert alice.of_type("closed")[0]["reason"] == reason
    assert any(words in str(body["error"]) for body in alice.of_type("chunk"))
    await node.play(chunks=100)


async def test_a_fault_in_one_control_costs_only_that_control(node: RunningNode) -> None:
    """`push_chunk` raised: the room is told, the picture goes on."""
    session_id, alice = await node.play(fail_in="push")
    alice.say({"type": "reset"})
    await wait_until(
        lambda: any("no such key" in str(body["error"]) for body in alice.of_type("chunk")),
        "the fault is told",
    )
    seen = len(alice.frames)
    await wait_until(lambda: len(alice.frames) > seen + 3, "the picture goes on")
    assert (await node.registry.read(session_id)).state is SessionState.RUNNING


async def test_a_slot_stays_taken_until_the_clean_up_is_confirmed(node: RunningNode) -> None:
    """A hanging `close_session` ends the session, but its slot only goes on when it's through."""
    session_id, alice = await node.play(hang_close=True, limits=SessionLimits(draining_s=0.3))
    alice.say({"type": "stop"})
    await wait_until(lambda: "close_session" in node.journal.threads, "the close hangs")

    async def quarantined() -> bool:
        await node.registry.sweep_deadlines(POOL)
        return (await node.registry.snapshot(POOL)).nodes[0].quarantined == 1

    await wait_until(quarantined, "the slot is quarantined")
    assert (await node.registry.read(session_id)).state is SessionState.CLOSED
    next_id = await node.open(chunks=100)
    assert (await node.registry.read(next_id)).state is SessionState.QUEUED

    node.journal.may_close.set()
    await node.reaches(next_id, SessionState.JOINING_ROOM)
    assert (await node.registry.snapshot(POOL)).nodes[0].quarantined == 0
