"""Which sessions stand in one place of a pool: in line, on a node, or ended?

A page at a time, with a bounded cost per call, from what is there anyway: nothing is kept for lists
but the order in which sessions ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.records import SessionRecord
from shared.store import keys, replies
from shared.store.connection import Connection

LINE = "q"
ENDED = "ended"


def on_node(node_id: str) -> str:
    """Return the place that is one node's slots."""
    return f"n:{node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One session, and where it stands in its place: what the next page begins behind."""

    after: str
    session: SessionRecord | None
    """None: its record has expired meanwhile, or its slot is quarantined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the sessions of one place."""

    rows: tuple[Listed, ...]
    is_last: bool


class Listing:
    """Lists one registry's sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(self, pool: str, place: str, *, after: str = "", count: int = 100) -> Page:
        """Return up to *count* sessions of *place* behind *after*; ended ones newest first."""
        begin = after or ("+inf" if place == ENDED else "-inf")
        word, rest = await self._connection.call(
            "list_sessions", pool, place=place, after=begin, count=count
        )
        return Page(rows=tuple(_rows(rest[0])), is_last=word == "last")

    async def node_ids(self, pool: str) -> tuple[str, ...]:
        """Return the nodes that have a lease, sorted."""
        reply = await self._connection.command(pool, "ZRANGE", keys.nodes_key(pool), 0, -1)
        return tuple(sorted(name.decode() for name in reply))  # type: ignore[attr-defined]


def _rows(reply: object) -> Iterator[Listed]:
    for after, told in replies.rows(reply):
        yield Listed(after=after, session=replies.session(told) if told else None)
