"""A node that can't reach the registry falls silent before it's declared dead, and comes back."""

from __future__ import annotations

from gpu_node.agent import EXIT_SUPERSEDED
from shared.states import SessionState
from shared.store import Registry
from tests.support.fake_room import FakePerson
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, StartRedis
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until

QUICK = {"node_ttl_s": 4.0, "beat_interval_s": 0.2}
"""Silent after one second; the registry waits for four."""


async def silent(node: RunningNode) -> None:
    """Wait until no session of the node may be heard."""
    await wait_until(
        lambda: not node.agent._parts.lease.is_fresh(), "the node lease runs out", timeout_s=10
    )


async def hears_nothing(node: RunningNode, person: FakePerson) -> bool:
    """Whether no frame and no status comes while the player would have shown several."""
    seen, said = len(person.frames), len(person.statuses)
    made = node.agent.heartbeat.loop_age_s
    ticks: list[float] = []

    def some_ticks() -> bool:
        ticks.append(made())
        return len(ticks) > 20

    await wait_until(some_ticks, "some time to pass")
    return (len(person.frames), len(person.statuses)) == (seen, said)


async def test_a_frozen_registry_silences_the_node_and_costs_nothing_more(
    start_redis: StartRedis,
) -> None:
    """No frame, no status, no answer to controls; then the same worker and pipeline go on."""
    server = start_redis()
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as node:
        session_id, alice = await node.play()
        workers = {frame.worker for frame in alice.frames}
        server.pause()
        await silent(node)
        alice.say({"type": "reset", "seq": 1})
        assert await hears_nothing(node, alice)
        server.resume()
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 3, "the picture goes on", timeout_s=10)
        assert {frame.worker for frame in alice.frames} == workers
        assert len(node.journal.created) == 1
        assert alice.of_type("control_ack") == []
        assert (await registry.read(session_id)).state is SessionState.RUNNING
    await registry.aclose()


async def test_a_restarted_registry_finds_its_sessions_still_played(
    start_redis: StartRedis,
) -> None:
    """Killed and started again with its data: the session goes on under its epoch."""
    server = start_redis("--appendonly", "yes", "--appendfsync", "always")
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as node:
        session_id, alice = await node.play()
        server.kill()
        await silent(node)
        server.start()
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 3, "the picture goes on", timeout_s=10)
        assert (await registry.read(session_id)).state is SessionState.RUNNING
        assert len(node.journal.created) == 1
    await registry.aclose()


async def test_a_node_that_was_declared_dead_lets_go_of_its_sessions(
    redis_url: str, registry: Registry
) -> None:
    """The session plays elsewhere under a higher epoch; here it's cleaned, a new life begins."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id, alice = await node.play()
        first = await registry.read(session_id)
        other = await PlayedNode.begin(registry, redis_url, node_id="node-b")
        node.link.cut = True
        await silent(node)

        async def moved() -> bool:
            await other.beat()
            await registry.sweep_nodes(POOL)
            return (await registry.read(session_id)).node_id == "node-b"

        await wait_until(moved, "the session is placed elsewhere", timeout_s=10)
        assert (await registry.read(session_id)).epoch > first.epoch
        assert await hears_nothing(node, alice)
        node.link.cut = False
        await wait_until(lambda: node.journal.closed, "the leftovers are cleaned")
        await node.ready()
        assert node.venue.stage(session_id).rooms() == []
        assert session_id not in node.keeper.deleted
        assert alice.of_type("closed") == []
        assert (await registry.read(session_id)).node_id == "node-b"
        await other.retire()


async def test_a_node_whose_name_was_taken_ends_itself(redis_url: str, registry: Registry) -> None:
    """A newer process with its node id registered while it was away: exit code 3."""
    async with running_node(redis_url, registry, **QUICK) as node:
        node.link.cut = True

        async def declared_dead() -> bool:
            await registry.sweep_nodes(POOL)
            return (await registry.snapshot(POOL)).nodes == ()

        await wait_until(declared_dead, "the node is declared dead", timeout_s=10)
        newer = await PlayedNode.begin(registry, redis_url, node_id="node-a")
        node.link.cut = False
        await wait_until(node.task.done, "the node ends")
        assert node.task.result() == EXIT_SUPERSEDED
        await newer.beat()
        await newer.retire()
