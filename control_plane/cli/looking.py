"""Who is on stage, who waits, and what do the nodes do?

``ps``, ``queue`` and ``nodes``: one look at one pool, read from the registry itself, so they work
while no replica runs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Annotated

import typer

from control_plane.cli import rows
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.tables import Cell, Column, drawn
from control_plane.operator_words import people, spell
from shared.facts import PoolFacts
from shared.store import Registry

Json = Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")]
_POOLS_NAMED = 20
_COUNTED = 100_000
"""Live sessions are counted up to here."""

Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most so many.")]


@takes(REGISTRY_FLAGS)
def ps(limit: Limit = 100, as_json: Json = False, *, given: Given) -> None:
    """List the live sessions: state, node, age, and whether anybody is in the room."""
    facts, total = asked(given, lambda registry, pool: _live(registry, pool, limit))
    if as_json:
        sessions = [rows.session_json(facts, one) for one in facts.sessions]
        show_json({"pool": facts.pool, "total": total, "sessions": sessions})
        return
    typer.echo(f"Pool {facts.pool}: {people(total, 'live session', 'live sessions')}")
    _tell_if_unused(given, facts)
    show_table(rows.SESSION_COLUMNS, [rows.session_row(facts, one) for one in facts.sessions])
    _more(total - len(facts.sessions))


@takes(REGISTRY_FLAGS)
def queue(limit: Limit = 100, as_json: Json = False, *, given: Given) -> None:
    """List who waits, in order."""
    facts, total = asked(given, lambda registry, pool: _line(registry, pool, limit))
    if as_json:
        waiting = [rows.session_json(facts, one) for one in facts.sessions]
        show_json({"pool": facts.pool, "total": total, "waiting": waiting})
        return
    taken, slots = _slots(facts)
    first = rows.state_s(facts, facts.sessions[0]) if facts.sessions else 0.0
    since = f", the first for {spell(first)}" if facts.sessions else ""
    count = people(total, "waits", "wait")
    typer.echo(f"Pool {facts.pool}: {count}{since}; {taken} of {slots} slots taken")
    _tell_if_unused(given, facts)
    show_table(rows.QUEUE_COLUMNS, [rows.queue_row(facts, one) for one in facts.sessions])
    _more(total - len(facts.sessions))


@takes(REGISTRY_FLAGS)
def nodes(as_json: Json = False, *, given: Given) -> None:
    """List the live nodes: state, slots, last heartbeat, and what keeps one from serving."""
    facts = asked(given, _nodes)
    if as_json:
        told = [rows.node_json(facts, one) for one in facts.nodes]
        show_json({"pool": facts.pool, "total": len(told), "nodes": told})
        return
    taken, slots = _slots(facts)
    count = people(len(facts.nodes), "live node", "live nodes")
    typer.echo(f"Pool {facts.pool}: {count}; {taken} of {slots} slots taken")
    _tell_if_unused(given, facts)
    show_table(rows.NODE_COLUMNS, [rows.node_row(facts, one) for one in facts.nodes])


def show_json(told: object) -> None:
    """Write one JSON value for a program."""
    typer.echo(json.dumps(told, ensure_ascii=False))


def show_table(columns: tuple[Column, ...], cells: list[list[Cell]]) -> None:
    """Write a table, coloured on a terminal; nothing for no rows."""
    if cells:
        typer.echo("\n".join(drawn(columns, cells, coloured=sys.stdout.isatty())))


def _tell_if_unused(given: Given, facts: PoolFacts) -> None:
    """Say that a pool was never used, and which were: its name may be a slip of the fingers."""
    if facts.counters:
        return
    used = asked(given, lambda registry, pool: registry.inspection.pools(pool))
    if used:
        others = ", ".join(used[:_POOLS_NAMED])
        typer.echo(f"Neither a node nor a session has ever used this pool; there are: {others}.")


def _more(count: int) -> None:
    if count > 0:
        typer.echo(f"… and {count} more (--limit shows them)")


def _slots(facts: PoolFacts) -> tuple[int, int]:
    return (
        sum(len(node.members) for node in facts.nodes),
        sum(node.capacity for node in facts.nodes),
    )


async def _live(registry: Registry, pool: str, limit: int) -> tuple[PoolFacts, int]:
    names = await registry.inspection.session_ids(pool, most=_COUNTED)
    facts = await registry.inspection.look(pool, sessions=names[:limit])
    live = tuple(one for one in facts.sessions if one.is_live)
    holders = {one.node_id: None for one in live if one.node_id}
    nodes = (await registry.inspection.look(pool, nodes=holders)).nodes if holders else ()
    return replace(facts, sessions=live, nodes=nodes), len(names)


async def _line(registry: Registry, pool: str, limit: int) -> tuple[PoolFacts, int]:
    total = await registry.inspection.line_length(pool)
    names: list[str] = []
    async for name, _ in registry.inspection.line(pool):
        names.append(name)
        if len(names) == limit:
            break
    node_ids = await registry.inspection.node_ids(pool)
    facts = await registry.inspection.look(pool, sessions=names, nodes=node_ids)
    return replace(facts, sessions=tuple(one for one in facts.sessions if one.position)), total


async def _nodes(registry: Registry, pool: str) -> PoolFacts:
    names = await registry.inspection.node_ids(pool)
    return await registry.inspection.look(pool, nodes=sorted(names))
