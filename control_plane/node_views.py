"""Whom does an order for a node touch, and how much room is there elsewhere?

What an operator looks at before the order, and what the order then names as the sight that it was
given on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared.errors import UnknownNode
from shared.facts import NodeFacts, PoolFacts, SessionFacts
from shared.ids import check_node_id
from shared.store import Registry

LONGEST_COUNTDOWN_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One node with its sessions, and how much room there is elsewhere."""

    facts: PoolFacts
    node: NodeFacts
    free_elsewhere: int
    waiting: int

    @property
    def touched(self) -> tuple[SessionFacts, ...]:
        """The sessions that would be moved; what is cleaned up or ends by itself isn't."""
        return tuple(one for one in self.facts.sessions if one.is_live)


async def look_at(registry: Registry, pool: str, node_id: str) -> View:
    """Look at a node and at what surrounds it.

    Raises:
        InvalidName: No node can have this id.
        UnknownNode: There is no such node (any more).
    """
    check_node_id(node_id)
    look, names = registry.inspection.look, await registry.inspection.node_ids(pool)
    facts = await look(pool, nodes=dict.fromkeys((node_id, *names)))
    node, *others = facts.nodes
    if not node.record:
        raise UnknownNode(node_id=node_id, pool=pool)
    held = [member.session_id for member in node.members if not member.quarantined]
    return View(
        facts=replace(facts, sessions=(await look(pool, sessions=held)).sessions if held else ()),
        node=node,
        free_elsewhere=sum(
            max(0, one.capacity - len(one.members) - one.number("strangers"))
            for one in others
            if one.free_score is not None
        ),
        waiting=await registry.inspection.line_length(pool),
    )


def order_of(node: NodeFacts) -> str:
    """Return what an order must name that is given after this sight of the node."""
    return node.record.get("order", "")
