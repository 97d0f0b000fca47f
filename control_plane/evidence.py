"""Where does the audit look, and how often?

Once everywhere; if anything differs, again after a heartbeat, and only what still differs counts.
The keys are scanned in bounded steps, and only on demand: a replica that checks itself now and then
does without. Nothing is changed anywhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from control_plane.truth import Difference, Evidence, differences, lasting
from shared.facts import KeyFacts, PoolFacts, RoomFacts
from shared.ids import pool_of
from shared.lifecycle import in_thread
from shared.rooms.admin import RoomAdmin
from shared.store import Registry

LOOK_AGAIN_AFTER_S = 3.0
"""More than a heartbeat, so that every node has spoken in between."""
MOST_SESSIONS = 100_000

_OF_SESSIONS = frozenset(("s:<sid>", "sd:<sid>", "sp:<sid>", "a:<sid>"))
_OF_NODES = frozenset(("n:<nid>", "ns:<nid>"))


def _nothing(pool: str) -> PoolFacts:
    return PoolFacts(pool=pool, at_ms=0, registry_ms=0, counters={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit has compared, and what differs."""

    pool: str
    sessions: int
    nodes: int
    keys: int | None
    """None: not compared."""
    rooms: int | None
    """None: not compared."""
    differences: tuple[Difference, ...]


async def audit(
    registry: Registry,
    pool: str,
    *,
    rooms: RoomAdmin | None,
    with_keys: bool = True,
    again_after_s: float = LOOK_AGAIN_AFTER_S,
) -> Audited:
    """Compare ledger, nodes' reports, keys and rooms of one pool.

    Args:
        registry: Where ledger, reports and keys are.
        pool: The pool.
        rooms: Where rooms are; None leaves them out.
        with_keys: Whether to scan the server's keys.
        again_after_s: How long to wait before the second look.

    Raises:
        StoreUnavailable: The registry doesn't answer.
        RoomsUnavailable: LiveKit doesn't answer.
    """
    seen = await look(registry, pool, rooms=rooms, with_keys=with_keys)
    found = await _compare(seen)
    if found:
        await asyncio.sleep(again_after_s)
        seen = await look(registry, pool, rooms=rooms, with_keys=with_keys)
        found = lasting(found, await _compare(seen))
    return Audited(
        pool=pool,
        sessions=sum(session.is_live for session in seen.facts.sessions),
        nodes=sum(node.lease_ms is not None for node in seen.facts.nodes),
        keys=None if seen.keys is None else len(seen.keys),
        rooms=None if seen.rooms is None else len(seen.rooms),
        differences=tuple(found),
    )


async def _compare(seen: Evidence) -> list[Difference]:
    """Compare in a thread: ten thousand sessions take a tenth of a second, which others needn't."""
    return await in_thread("compare", partial(differences, seen))


async def look(
    registry: Registry, pool: str, *, rooms: RoomAdmin | None, with_keys: bool
) -> Evidence:
    """Look once; names first, then what stands under all of them."""
    keys = await _keys(registry, pool) if with_keys else None
    if foreign := tuple(key for key in keys or () if key.kind and not key.type_fits):
        # No script gets past such a key, so nothing else can be looked at.
        return Evidence(facts=_nothing(pool), keys=foreign, whole=False)
    of_rooms = await _rooms(rooms, pool) if rooms else None
    digests = [key.subject for key in keys or () if key.kind == "idem:<hash>"]
    idempotency = await registry.inspection.idempotency_owners(pool, digests)
    live = await registry.inspection.session_ids(pool, most=MOST_SESSIONS)
    sessions = dict.fromkeys(live)
    nodes = dict.fromkeys(await registry.inspection.node_ids(pool))
    for key in keys or ():
        if key.kind in _OF_SESSIONS:
            sessions[key.subject] = None
        elif key.kind in _OF_NODES:
            nodes[key.subject] = None
    sessions.update(dict.fromkeys(name for name in idempotency.values() if name))
    sessions.update(dict.fromkeys(room.session_id for room in of_rooms or ()))
    return Evidence(
        facts=await registry.inspection.look(pool, sessions=sessions, nodes=nodes),
        keys=keys,
        idempotency=idempotency,
        rooms=of_rooms,
        whole=len(live) < MOST_SESSIONS,
    )


async def _keys(registry: Registry, pool: str) -> tuple[KeyFacts, ...]:
    found: dict[str, KeyFacts] = {}
    async for step in registry.inspection.keys(pool):
        found.update((key.name, key) for key in step)  # a scan may name a key twice
    return tuple(found.values())


async def _rooms(rooms: RoomAdmin, pool: str) -> tuple[RoomFacts, ...]:
    return tuple(room for room in await rooms.rooms() if pool_of(room.session_id) == pool)
