"""Which sessions are there, page by page?

A walk through every place where a session can stand: pool by pool the line, then each node's slots,
then the ended ones, newest first. A cursor names the place and where in it the walk goes on, so any
replica can go on with it. One page costs a bounded number of bounded reads; a page may be short, or
even empty, and still have a cursor, when few of the sessions that were looked at were asked for.

Sessions move while somebody pages: one that does may come twice, or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared.errors import InvalidRequest
from shared.records import SessionRecord
from shared.states import ENDED_STATES, SessionState
from shared.store import Registry
from shared.store.listing import ENDED, LINE, on_node

MOST_AT_ONCE = 200
_MOST_READS = 32
_LEAST_READ = 20
_SEPARATOR = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a walk goes on: behind *after* in a place of a pool."""

    pool: str
    place: str
    after: str = ""

    def __str__(self) -> str:
        return _SEPARATOR.join((self.pool, self.place, self.after))

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read what `str` wrote, or raise `InvalidRequest`."""
        parts = text.split(_SEPARATOR)
        if len(parts) != 3 or not parts[2].isascii() or not (parts[2] or "0").isdigit():
            raise InvalidRequest("The cursor isn't one that a list gave out.")
        return cls(pool=parts[0], place=parts[1], after=parts[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One page; no cursor: the walk is over."""

    sessions: tuple[SessionRecord, ...]
    cursor: Cursor | None


class SessionList:
    """Walks through the sessions of one registry."""

    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    async def find(
        self,
        *,
        pools: tuple[str, ...],
        states: frozenset[SessionState],
        limit: int,
        cursor: Cursor | None = None,
    ) -> Found:
        """Return up to *limit* sessions in one of *states*, from *cursor* on.

        Raises:
            StoreUnavailable: Redis is out.
        """
        found: list[SessionRecord] = []
        reads = 0
        async for start in self._places(pools, states, cursor):
            here, is_last = start, False
            while not is_last:
                if len(found) >= limit or reads >= _MOST_READS:
                    return Found(sessions=tuple(found), cursor=here)
                wanted = limit - len(found)
                page = await self._registry.listing.page(
                    here.pool, here.place, after=here.after, count=max(wanted, _LEAST_READ)
                )
                reads, is_last = reads + 1, page.is_last
                for row in page.rows:
                    if len(found) >= limit:
                        return Found(sessions=tuple(found), cursor=here)
                    here = Cursor(pool=here.pool, place=here.place, after=row.after)
                    if row.session is not None and row.session.state in states:
                        found.append(row.session)
        return Found(sessions=tuple(found), cursor=None)

    async def _places(
        self, pools: tuple[str, ...], states: frozenset[SessionState], cursor: Cursor | None
    ) -> AsyncIterator[Cursor]:
        """Yield each place where such sessions can stand, in a fixed order, from the cursor on."""
        for pool in pools:
            if cursor is not None and pools.index(pool) < pools.index(cursor.pool):
                continue
            for place in await self._places_of(pool, states):
                if cursor is None or cursor.pool != pool:
                    yield Cursor(pool=pool, place=place)
                elif place == cursor.place:
                    yield cursor
                elif _rank(place) > _rank(cursor.place):
                    yield Cursor(pool=pool, place=place)

    async def _places_of(self, pool: str, states: frozenset[SessionState]) -> list[str]:
        places = []
        if SessionState.QUEUED in states:
            places.append(LINE)
        if states - ENDED_STATES - {SessionState.QUEUED}:
            places += [on_node(name) for name in await self._registry.listing.node_ids(pool)]
        if states & ENDED_STATES:
            places.append(ENDED)
        return places


def _rank(place: str) -> tuple[int, str]:
    """Order of the walk; a node that is gone by now still has its place in it."""
    if place in (LINE, ENDED):
        return (0 if place == LINE else 2, "")
    return (1, place)
