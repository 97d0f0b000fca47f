"""A node whose sessions an operator has moved: its rooms count down, then all go elsewhere."""

from __future__ import annotations

from shared.states import Admin, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until


async def order(registry: Registry, admin: Admin, move_in_s: float | None = None) -> None:
    """Give the node an order, as an operator who has just looked at it."""
    (node,) = (await registry.inspection.look(POOL, nodes=["node-a"])).nodes
    replaces = node.record.get("order", "")
    await registry.set_node_admin(POOL, "node-a", admin, replaces=replaces, move_in_s=move_in_s)


async def test_the_room_hears_the_countdown_and_then_that_it_is_back_in_line(
    redis_url: str, registry: Registry
) -> None:
    """The node plays until then; the session keeps its ticket and its count."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        ticket = (await registry.read(session_id)).ticket
        await order(registry, Admin.DRAINING, 2.5)
        later_id = await node.open()
        await wait_until(lambda: alice.of_type("draining"), "the countdown begins")
        told = alice.of_type("draining")[0]
        assert told["reason"] == "node_drained"
        assert 0 < float(str(told["in_s"])) <= 2.5
        assert (await registry.read(session_id)).state is SessionState.RUNNING
        record = await node.reaches(session_id, SessionState.QUEUED)
        assert (record.ticket, record.position, record.attempt) == (ticket, 1, 2)
        assert record.returned_because == "node_drained"
        assert (await registry.read(later_id)).position == 2
        assert [said["reason"] for said in alice.of_type("requeued")] == ["node_drained"]
        assert alice.of_type("closed") == []
        assert session_id not in node.keeper.deleted
        await wait_until(lambda: node.journal.closed == ["pipeline-1"], "it is cleaned up")


async def test_resumed_in_time_everybody_stays(redis_url: str, registry: Registry) -> None:
    """The room is told, and the countdown's end means nothing any more."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        await order(registry, Admin.DRAINING, 60.0)
        await wait_until(lambda: alice.of_type("draining"), "the countdown begins")
        await order(registry, Admin.OPEN)
        await wait_until(lambda: alice.of_type("draining")[-1]["in_s"] is None, "it's called off")
        assert (await registry.read(session_id)).state is SessionState.RUNNING


async def test_the_drained_node_is_served_again_only_when_it_is_resumed(
    redis_url: str, registry: Registry
) -> None:
    """Then by the same session, first in line, once nothing is left of it here."""
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play()
        await order(registry, Admin.DRAINING, 0.0)
        await node.reaches(session_id, SessionState.QUEUED)
        await order(registry, Admin.OPEN)
        node.venue.stage(session_id).enter("alice")
        record = await node.reaches(session_id, SessionState.RUNNING)
        assert (record.attempt, record.node_id) == (2, "node-a")


async def test_a_clean_up_that_hangs_holds_nobody_back_but_the_slot(
    redis_url: str, registry: Registry
) -> None:
    """The session goes on elsewhere at once; here its slot stays taken, whatever is ordered."""
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play(hang_close=True)
        await order(registry, Admin.DRAINING, 0.0)
        await node.reaches(session_id, SessionState.QUEUED)
        await order(registry, Admin.OPEN)
        await next_beats(node)
        assert (await registry.read(session_id)).state is SessionState.QUEUED
        assert (await registry.snapshot(POOL)).nodes[0].used == 1
        node.journal.may_close.set()


async def next_beats(node: RunningNode) -> None:
    """Return after two more beats."""
    stamp = node.agent.heartbeat.stamp
    await wait_until(lambda: node.agent.heartbeat.stamp >= stamp + 2, "two more beats")
