"""A session outlives the loss of its room."""

from __future__ import annotations

import time

import pytest

from gpu_node.room import Lost
from shared.records import SessionLimits
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL, RawRedis
from tests.support.running_node import running_node
from tests.support.wait import wait_until


async def test_a_lost_room_is_joined_again_with_a_fresh_identity(
    redis_url: str, registry: Registry
) -> None:
    """Same epoch, next attempt, same pipeline session; the frames go on, `first_frame` is said."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        epoch = (await registry.read(session_id)).epoch
        node.venue.stage(session_id).cut(Lost.CONNECTION)
        second = f"telefuser-node-a-{epoch}-2"
        await wait_until(lambda: alice.frames[-1].worker == second, "the second worker plays")
        assert alice.frames[0].worker == f"telefuser-node-a-{epoch}-1"
        await wait_until(lambda: len(alice.of_type("first_frame")) == 2, "its first frame is told")
        assert len(node.journal.created) == 1
        assert (await registry.read(session_id)).state is SessionState.RUNNING


async def test_a_restart_of_the_media_server_is_sat_out(redis_url: str, registry: Registry) -> None:
    """While it's down the world stands still, with slot and pipeline session kept."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        node.venue.reachable = False
        node.venue.stage(session_id).cut(Lost.SERVER_SHUTDOWN)
        attempts = len(node.venue.requests)
        await wait_until(
            lambda: node.agent.heartbeat.residents() and len(node.keeper.ensured) >= attempts,
            "the loss is noticed",
        )
        seen, made = len(alice.frames), node.journal.made
        node.venue.reachable = True
        await wait_until(lambda: len(alice.frames) > seen + 2, "the picture goes on")
        assert node.journal.made <= made + 4
        assert len(node.journal.created) == 1


async def test_a_room_that_stays_lost_gives_the_session_back(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its pipeline session closed and its ticket kept, once the tries are over."""
    monkeypatch.setattr("gpu_node.stage.REJOIN_WITHIN_S", 0.5)
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play()
        node.venue.reachable = False
        node.venue.stage(session_id).cut()
        await wait_until(lambda: node.journal.closed, "the pipeline session is closed")

        async def returned() -> bool:
            return (await registry.read(session_id)).returned_because in (
                "join_failed",
                "media_lost",
            )

        await wait_until(returned, "the session is given back")


async def test_the_seconds_without_a_room_are_the_user_s_own(
    redis_url: str, registry: Registry, raw_redis: RawRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit stands still from the loss of the room on, not from the giving back."""
    monkeypatch.setattr("gpu_node.stage.REJOIN_WITHIN_S", 2.0)
    async with running_node(redis_url, registry) as node:
        began_s = time.monotonic()
        session_id, _ = await node.play()
        record = f"gr:{{default}}:s:{session_id}"
        node.venue.reachable = False
        node.venue.stage(session_id).cut()
        played_s = time.monotonic() - began_s
        await wait_until(lambda: raw_redis.hget(record, "left"), "it is given back", timeout_s=10)
        assert time.monotonic() - began_s > played_s + 1.5
        assert int(str(raw_redis.hget(record, "left"))) >= 1_800_000 - played_s * 1000 - 500


async def test_the_seconds_of_a_room_that_was_lost_and_found_are_given_back(
    redis_url: str, registry: Registry, raw_redis: RawRedis
) -> None:
    """The session stays on its node; its time is up later by what its person didn't see."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        ends_at_s = (await registry.read(session_id)).expires_at_s
        assert ends_at_s is not None
        node.venue.reachable = False
        node.venue.stage(session_id).cut()
        seen, lost_at_s = len(alice.frames), time.monotonic()
        await wait_until(lambda: time.monotonic() - lost_at_s > 1.0, "a second is lost")
        node.venue.reachable = True
        await wait_until(lambda: len(alice.frames) > seen, "it plays on", timeout_s=10)
        lost_s = time.monotonic() - lost_at_s

        async def later() -> bool:
            now_at_s = (await registry.read(session_id)).expires_at_s
            return now_at_s is not None and now_at_s > ends_at_s + 0.9

        await wait_until(later, "its end is put off")
        record = f"gr:{{default}}:s:{session_id}"
        assert 900 < int(str(raw_redis.hget(record, "credited"))) <= lost_s * 1000 + 50


async def test_a_limit_stands_still_while_the_room_is_lost(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that is longer than what a session had left doesn't end it."""
    monkeypatch.setattr("gpu_node.runner.CREDIT_EVERY_S", 0.2)
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(limits=SessionLimits(session_s=2.0))
        began_s, seen = time.monotonic(), len(alice.frames)
        node.venue.reachable = False
        node.venue.stage(session_id).cut()

        async def is_over() -> bool:
            await registry.sweep_deadlines(POOL)
            return time.monotonic() - began_s > 3.0

        await wait_until(is_over, "its limit would be over")
        node.venue.reachable = True
        await wait_until(lambda: len(alice.frames) > seen, "it plays on", timeout_s=10)
        assert (await registry.read(session_id)).state is SessionState.RUNNING


async def test_a_limit_stands_still_also_before_the_first_frame(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is lost while the first chunk is made: its person has seen nothing yet."""
    monkeypatch.setattr("gpu_node.runner.CREDIT_EVERY_S", 0.2)
    async with running_node(redis_url, registry) as node:
        session_id = await node.open(limits=SessionLimits(session_s=3.0), chunk_s=1.0)
        alice = node.venue.stage(session_id).enter("alice")
        await node.reaches(session_id, SessionState.RUNNING)
        began_s = time.monotonic()
        node.venue.reachable = False
        node.venue.stage(session_id).cut()
        assert not alice.frames

        async def is_over() -> bool:
            await registry.sweep_deadlines(POOL)
            return time.monotonic() - began_s > 4.0

        await wait_until(is_over, "its limit would be over", timeout_s=10)
        node.venue.reachable = True
        await wait_until(lambda: alice.frames, "it plays", timeout_s=10)
        assert (await registry.read(session_id)).state is SessionState.RUNNING


async def test_no_second_is_given_back_twice(
    redis_url: str, registry: Registry, raw_redis: RawRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was credited while the room was lost isn't left over once more by the giving back."""
    monkeypatch.setattr("gpu_node.runner.CREDIT_EVERY_S", 0.3)
    monkeypatch.setattr("gpu_node.stage.REJOIN_WITHIN_S", 2.0)
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play()
        record = f"gr:{{default}}:s:{session_id}"
        node.venue.reachable = False
        node.venue.stage(session_id).cut()
        await wait_until(lambda: raw_redis.hget(record, "left"), "it is given back", timeout_s=10)
        assert int(str(raw_redis.hget(record, "left"))) <= 1_800_000


async def test_a_room_that_cant_be_joined_gives_the_session_back(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try has an identity of its own; no pipeline session is made for nobody."""
    monkeypatch.setattr("gpu_node.runner.JOIN_WITHIN_S", 0.6)
    async with running_node(redis_url, registry) as node:
        node.venue.reachable = False
        session_id = await node.open()

        async def returned() -> bool:
            return (await registry.read(session_id)).attempt > 1 or bool(
                (await registry.read(session_id)).returned_because
            )

        await wait_until(returned, "the session is given back")
        assert node.journal.created == []


async def test_a_worker_that_was_put_out_waits_for_the_kill_list(
    redis_url: str, registry: Registry
) -> None:
    """Its room was deleted because the session ended: it doesn't make the room anew."""
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play()
        await registry.cancel(session_id, Reason.CLIENT_STOP)
        node.venue.stage(session_id).delete()
        await node.reaches(session_id, SessionState.CLOSED)
        assert len(node.venue.requests) == 1
        assert (await registry.snapshot(POOL)).nodes[0].used == 0
