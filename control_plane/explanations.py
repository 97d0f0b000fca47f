"""What is known of one session, and of what it waits for?

Gathered from the registry alone: its record, the audit trail, and who holds the slots that it waits
for. `stories` makes sense of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from control_plane.stories import Obstacles, Story, obstacles_of, story_of
from shared.errors import UnknownSession
from shared.events import Event
from shared.facts import PoolFacts, SessionFacts
from shared.ids import pool_of
from shared.store import Registry

_SLOTS_LOOKED_AT = 512
_AHEAD_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """All that is known of one session, and of what it waits for."""

    facts: PoolFacts
    session: SessionFacts | None
    """None: its record is gone, only the trail remembers it."""
    story: Story
    obstacles: Obstacles | None


async def explained(registry: Registry, session_id: str) -> Explained:
    """Gather one session's story.

    Raises:
        UnknownSession: Neither a record nor the trail knows it.
    """
    pool = pool_of(session_id)
    look = registry.inspection.look
    facts = await look(pool, sessions=[session_id])
    (session,) = facts.sessions
    events: list[Event] = [event async for event in registry.trail.read(pool)]
    story = story_of(session_id, events, now_ms=facts.at_ms)
    if session.state is None:
        if not story.steps:
            raise UnknownSession(session_id=session_id)
        return Explained(facts=facts, session=None, story=story, obstacles=None)
    obstacles = None
    if session.node_id:
        facts = replace(facts, nodes=(await look(pool, nodes=[session.node_id])).nodes)
    if session.position is not None:
        around, ahead = await _around(registry, pool, session.position)
        obstacles = obstacles_of(session, around, ahead)
    return Explained(facts=facts, session=session, story=story, obstacles=obstacles)


async def _around(registry: Registry, pool: str, position: int) -> tuple[PoolFacts, list[str]]:
    """Return the nodes with the sessions that hold their slots, and the first ones in line."""
    ahead: list[str] = []
    async for name, _ in registry.inspection.line(pool):
        if len(ahead) == min(position - 1, _AHEAD_SHOWN):
            break
        ahead.append(name)
    node_ids = sorted(await registry.inspection.node_ids(pool))
    facts = await registry.inspection.look(pool, nodes=node_ids)
    held = [member.session_id for node in facts.nodes for member in node.members]
    holders = await registry.inspection.look(pool, sessions=held[:_SLOTS_LOOKED_AT])
    return replace(facts, sessions=holders.sessions), ahead
