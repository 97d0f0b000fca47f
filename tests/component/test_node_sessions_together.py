"""Several sessions share one node, its service and its slots."""

from __future__ import annotations

from shared.states import SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import running_node
from tests.support.wait import wait_until


async def test_two_sessions_play_at_once_and_hear_only_themselves(
    redis_url: str, registry: Registry
) -> None:
    """One service, two pipeline sessions, two rooms."""
    async with running_node(redis_url, registry, max_sessions_per_worker=2) as node:
        (_, alice), (bobs_id, bob) = await node.play(), await node.play(identity="bob")
        assert alice.frames[0].worker != bob.frames[0].worker
        assert len(node.journal.created) == 2
        bob.say({"type": "stop"})
        await node.reaches(bobs_id, SessionState.CLOSED)
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen, "alice's world goes on")
        assert alice.of_type("closed") == []


async def test_the_next_in_line_takes_a_freed_slot_at_once(
    redis_url: str, registry: Registry
) -> None:
    """The slot goes on in the script that confirms the end; the node hears of it by a hint."""
    async with running_node(redis_url, registry, beat_interval_s=1.0) as node:
        _, alice = await node.play()
        waiting_id = await node.open()
        assert (await registry.read(waiting_id)).position == 1
        bob = node.venue.stage(waiting_id).enter("alice")
        alice.say({"type": "stop"})
        await wait_until(lambda: bob.frames, "the next one plays")


async def test_a_service_that_hangs_in_one_session_holds_up_no_other(
    redis_url: str, registry: Registry
) -> None:
    """A blocked `close_session` has a thread of its own."""
    async with running_node(redis_url, registry, max_sessions_per_worker=2) as node:
        _, alice = await node.play()
        _, bob = await node.play(hang_close=True, identity="bob")
        bob.say({"type": "stop"})
        await wait_until(lambda: bob.of_type("draining"), "bob's session ends")
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 5, "alice's world goes on")
        assert (await registry.snapshot(POOL)).nodes[0].used == 2
        node.journal.may_close.set()
