"""A registry that lost its data, or its last writes, gets back what its nodes still play."""

from __future__ import annotations

import pytest

from shared.records import SessionRecord
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.fake_room import FakePerson
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RawRedis, StartRedis
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until

QUICK = {"node_ttl_s": 4.0, "beat_interval_s": 0.2}
EVERY_WRITE = ("--appendonly", "yes", "--appendfsync", "always")


async def plays_on(alice: FakePerson) -> None:
    """Wait until new frames come."""
    seen = len(alice.frames)
    await wait_until(lambda: len(alice.frames) > seen + 3, "the picture goes on", timeout_s=10)


async def is_owned(node: RunningNode, session_id: str) -> SessionRecord:
    """Wait until the registry knows the session, and the node may play it."""
    lease = node.agent._parts.lease

    async def known() -> bool:
        record = (await node.registry.touch([session_id])).get(session_id)
        held = [one for one in node.agent.heartbeat.residents() if one.session_id == session_id]
        is_known = record is not None and record.node_id == node.settings.node_id
        return is_known and all(map(lease.holds, held)) and bool(held)

    await wait_until(known, "the session is the node's own again", timeout_s=10)
    return await node.registry.read(session_id)


async def moves_to(node: PlayedNode, session_id: str) -> SessionRecord:
    """Wait until the session is placed on a played node, as sweeps and beats go on."""

    async def moved() -> bool:
        await node.beat()
        await node.registry.sweep_nodes(POOL)
        return (await node.registry.read(session_id)).node_id == node.node_id

    await wait_until(moved, "the session is placed elsewhere", timeout_s=20)
    return await node.registry.read(session_id)


# All of it is lost.


async def test_all_that_was_lost_is_back_and_outlives_its_node(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """Same room, worker and pipeline, under its ticket; a later death recovers it as ever."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        raw_redis.flushall()
        after = await is_owned(node, session_id)
        assert (after.state, after.ticket, after.epoch, after.attempt, after.identity) == (
            SessionState.RUNNING, before.ticket, before.epoch, before.attempt, "alice",
        )  # fmt: skip
        assert after.pipeline_session_id == before.pipeline_session_id
        assert after.expires_at_s == pytest.approx(before.expires_at_s, abs=2)
        await plays_on(alice)
        assert len(node.journal.created) == 1
        assert len({frame.worker for frame in alice.frames}) == 1
        node.link.cut = True
        other = await PlayedNode.begin(registry, redis_url, node_id="node-b")
        moved = await moves_to(other, session_id)
        assert (moved.ticket, moved.attempt, moved.epoch > before.epoch) == (before.ticket, 2, True)
        assert (await registry.request(session_id)) is not None
        node.link.cut = False
        await wait_until(lambda: node.journal.closed, "the leftovers are cleaned")
        await other.retire()


async def test_a_server_that_comes_back_empty_gets_everything_back(
    start_redis: StartRedis,
) -> None:
    """Killed, and its log is gone with its machine: another run, and not one key."""
    server = start_redis(*EVERY_WRITE)
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        server.kill()
        server.lose_log_after(0)
        server.start()
        after = await is_owned(node, session_id)
        assert (after.epoch, after.ticket, after.attempt) == (before.epoch, before.ticket, 1)
        await plays_on(alice)
        assert len(node.journal.created) == 1
    await registry.aclose()


async def test_two_beats_bring_everything_back(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """The first one is told to register, the next one to adopt: no more are needed."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id, _ = await node.play()
        stamp = node.agent.heartbeat.stamp
        raw_redis.flushall()
        await wait_until(lambda: raw_redis.exists(f"gr:{{default}}:s:{session_id}"), "it is back")
        assert node.agent.heartbeat.stamp - stamp <= 3  # one of them may have been under way


async def test_the_picture_comes_back_with_its_session(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """Another node would need it to begin the same world."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id = f"{POOL}-{'k' * 26}"
        await registry.put_image(session_id, b"jpeg")
        await node.open(session_id=session_id)
        alice = node.venue.stage(session_id).enter("alice")
        await wait_until(lambda: alice.frames, "the first frame")
        raw_redis.flushall()
        await is_owned(node, session_id)
        assert await registry.image(session_id) == b"jpeg"
        assert raw_redis.ttl(f"gr:{{default}}:a:{session_id}") == -1


async def test_a_session_that_was_still_waiting_for_its_controller_comes_back(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """It goes on step by step from where it was."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id = await node.open()
        await node.reaches(session_id, SessionState.JOINING_ROOM)
        await wait_until(lambda: node.venue.stage(session_id).rooms(), "the worker is there")
        raw_redis.flushall()
        assert (await is_owned(node, session_id)).state is SessionState.JOINING_ROOM
        alice = node.venue.stage(session_id).enter("alice")
        await wait_until(lambda: alice.frames, "the first frame")
        assert (await node.reaches(session_id, SessionState.RUNNING)).attempt == 1


async def test_a_session_that_was_ending_ends_with_its_reason(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """Its service takes long to close; the registry learns it anew, and then how it ended."""
    async with running_node(redis_url, registry, **QUICK) as node:
        session_id, _ = await node.play(hang_close=True)
        await registry.cancel(session_id, Reason.ADMIN)
        await wait_until(lambda: "close_session" in node.journal.threads, "the service closes")
        raw_redis.flushall()

        async def drains() -> bool:
            record = (await registry.touch([session_id])).get(session_id)
            return record is not None and record.state is SessionState.DRAINING

        await wait_until(drains, "the registry knows that it ends", timeout_s=10)
        node.journal.may_close.set()
        assert (await node.reaches(session_id, SessionState.CLOSED)).reason is Reason.ADMIN


# Its last writes are lost.


async def test_a_lost_tail_is_made_good_by_the_node(start_redis: StartRedis) -> None:
    """The record comes back as it stood at its assignment; nothing is returned to the line."""
    server = start_redis(*EVERY_WRITE)
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as node:
        session_id = await node.open()
        await node.reaches(session_id, SessionState.JOINING_ROOM)
        kept = server.log_bytes()
        alice = node.venue.stage(session_id).enter("alice")
        await wait_until(lambda: alice.frames, "the first frame")
        before = await node.reaches(session_id, SessionState.RUNNING)
        server.kill()
        server.lose_log_after(kept)
        server.start()

        async def caught_up() -> bool:
            return (await registry.read(session_id)).state is SessionState.RUNNING

        assert (await registry.read(session_id)).state is SessionState.JOINING_ROOM
        await wait_until(caught_up, "the record has caught up", timeout_s=10)
        after = await registry.read(session_id)
        assert (after.epoch, after.attempt) == (before.epoch, 1)
        await plays_on(alice)
        assert len(node.journal.created) == 1
    await registry.aclose()


async def test_a_step_waits_for_a_record_that_has_lost_the_one_before(
    start_redis: StartRedis,
) -> None:
    """The controller comes just then: not an error of the node, the session goes on."""
    server = start_redis(*EVERY_WRITE)
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as node:
        node.venue.opened.clear()
        session_id = await node.open()
        kept = server.log_bytes()
        await node.reaches(session_id, SessionState.JOINING_ROOM)
        server.kill()
        server.lose_log_after(kept)
        node.venue.opened.set()
        alice = node.venue.stage(session_id).enter("alice")
        server.start()
        await wait_until(lambda: alice.frames, "the first frame", timeout_s=10)
        assert (await node.reaches(session_id, SessionState.RUNNING)).attempt == 1
    await registry.aclose()


async def test_of_two_nodes_that_play_it_the_newer_one_keeps_it(start_redis: StartRedis) -> None:
    """The registry came back from before it moved; the older one cleans up and says nothing."""
    server = start_redis(*EVERY_WRITE)
    registry = Registry.connect(server.url)
    async with running_node(server.url, registry, **QUICK) as first:
        session_id, _ = await first.play()
        kept = server.log_bytes()
        old = await registry.read(session_id)
        async with running_node(server.url, registry, node_id="node-b", **QUICK) as second:
            second.venue.stage(session_id).enter("alice")
            first.link.cut = True

            async def plays_there() -> bool:
                await registry.sweep_nodes(POOL)
                record = await registry.read(session_id)
                return (record.node_id, record.state) == ("node-b", SessionState.RUNNING)

            await wait_until(plays_there, "it plays on the second node", timeout_s=20)
            new = await registry.read(session_id)
            server.kill()
            server.lose_log_after(kept)
            server.start()
            assert (await registry.read(session_id)).epoch == old.epoch
            first.link.cut = False
            after = await is_owned(second, session_id)
            assert (after.node_id, after.epoch) == ("node-b", new.epoch)
            await wait_until(lambda: first.journal.closed, "the older one is cleaned")
            assert len(second.journal.created) == 1
            assert session_id not in first.keeper.deleted
    await registry.aclose()
