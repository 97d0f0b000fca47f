"""The registry learns when the first frame of an assignment was played."""

from __future__ import annotations

import pytest

from shared.errors import StoreUnavailable
from shared.records import Owner
from shared.states import SessionState
from shared.store import Registry
from tests.support.redis_server import POOL, RawRedis
from tests.support.running_node import running_node
from tests.support.wait import wait_until


async def test_the_first_frame_is_noted_under_its_epoch(redis_url: str, registry: Registry) -> None:
    """Once, after the pipeline session runs, so that the wait for it can be told."""
    async with running_node(redis_url, registry) as node:
        session_id = await node.open(chunks=1000)
        node.venue.stage(session_id).enter("alice")
        await node.reaches(session_id, SessionState.RUNNING)

        async def is_noted() -> bool:
            facts = await registry.inspection.look(POOL, sessions=[session_id])
            (session,) = facts.sessions
            return session.number("first_frame_epoch") == session.number("epoch")

        await wait_until(is_noted, "the first frame is noted")
        told = [event.what async for event in registry.trail.read(POOL) if event.session_id]
        assert told[-2:] == ["running", "first_frame"]


async def test_a_first_frame_in_an_outage_is_noted_after_it(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the time at which it was played, not with that of the answer."""
    async with running_node(redis_url, registry) as node:
        own = node.agent._parts.registry
        asked_s, note = list[float](), own.note_first_frame

        async def note_first_frame(owner: Owner, *, ago_s: float) -> str:
            asked_s.append(ago_s)
            if len(asked_s) < 4:
                raise StoreUnavailable(why="the test says so")
            return await note(owner, ago_s=ago_s)

        monkeypatch.setattr(own, "note_first_frame", note_first_frame)
        session_id, _ = await node.play(chunks=1000)

        async def noted_at_ms() -> int | None:
            facts = await registry.inspection.look(POOL, sessions=[session_id])
            (session,) = facts.sessions
            return session.number("first_frame")

        at_ms = await wait_until(noted_at_ms, "the first frame is noted", timeout_s=20)
        assert asked_s == sorted(asked_s)
        assert asked_s[-1] > 3 * 0.25
        events = [event async for event in registry.trail.read(POOL)]
        (told,) = (event for event in events if event.what == "first_frame")
        assert at_ms is not None
        assert told.at_ms - at_ms >= asked_s[-1] * 1000 - 1


async def test_a_registry_that_lost_everything_learns_again_that_it_plays(
    redis_url: str, registry: Registry, raw_redis: RawRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks isn't told that a session which plays on has shown no frame yet."""
    async with running_node(redis_url, registry, node_ttl_s=4.0, beat_interval_s=0.2) as node:
        read, packed = node.agent._parts.registry.bundle, list[str]()

        async def bundle(name: str) -> str | None:
            packed.append(await read(name) or "")
            return packed[-1] or None

        monkeypatch.setattr(node.agent._parts.registry, "bundle", bundle)
        session_id = await node.open(chunks=1000)
        node.venue.stage(session_id).enter("alice")

        async def noted() -> tuple[int, int] | None:
            facts = await registry.inspection.look(POOL, sessions=[session_id])
            (session,) = facts.sessions
            epoch, at_ms = session.number("first_frame_epoch"), session.number("first_frame")
            is_now = epoch is not None and epoch == session.number("epoch")
            return (epoch, at_ms) if is_now and at_ms is not None and epoch is not None else None

        before = await wait_until(noted, "the first frame is noted")

        await wait_until(lambda: any("first_frame" in text for text in packed), "the node keeps it")
        raw_redis.flushall()
        assert await wait_until(noted, "it is known again", timeout_s=10) == before
