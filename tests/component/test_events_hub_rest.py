"""What the hub of event streams does while nobody waits: nothing that takes a processor."""

from __future__ import annotations

from control_plane.app import Replica
from tests.support.event_stream import following
from tests.support.replica import BeginNode, Client
from tests.support.wait import wait_until


async def test_a_line_in_which_nobody_waits_any_more_becomes_never_due(
    replica: tuple[Replica, Client], begin_node: BeginNode
) -> None:
    """The hub wakes for the next reading of a line only as long as a place may be told from it."""
    parts, api = replica
    session_id = (await api.create()).json()["session_id"]
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        await wait_until(lambda: parts.hub._placed, "the line is read for its place")
        assert parts.lines.due_in_s("default") > 0
        await begin_node()
        await stream.event("assigned")
        await wait_until(lambda: not parts.hub._placed, "nothing is due any more")


async def test_a_line_that_was_never_read_is_due(replica: tuple[Replica, Client]) -> None:
    """Nobody waits for a reading that doesn't exist."""
    assert replica[0].lines.due_in_s("default") == 0
