"""The registry learns when the first frame of an assignment was played."""

from __future__ import annotations

from shared.states import SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
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
