"""What stands in the registry, as whoever wants to understand it needs to see it?

Only reads. Names come in pages, from the line, the nodes' slots and the deadlines, or by `keys`
from a scan of the whole server that holds the pool; what stands under them comes from one read-only
script, some hundred names at a time. Names and facts are of different instants: a name may be gone
when it is looked at, which shows as an empty record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import TypeVar, cast

from shared.facts import KeyFacts, PoolFacts
from shared.store import fact_replies, keys
from shared.store.connection import Connection

T = TypeVar("T")

LOOK_AT_ONCE = 128
"""Sessions per script call: about 3 ms in which Redis serves nobody else."""
PAGE = 1000
SCAN_STEP = 500


class Inspection:
    """Reads names and facts; writes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(
        self, pool: str, *, sessions: Iterable[str] = (), nodes: Iterable[str] = ()
    ) -> PoolFacts:
        """Return what stands under these names; up to `LOOK_AT_ONCE` of a kind are one instant."""
        of_sessions, of_nodes = _batches(sessions, LOOK_AT_ONCE), _batches(nodes, LOOK_AT_ONCE)
        facts = await self._look_once(pool, next(of_sessions, ()), next(of_nodes, ()))
        all_sessions, all_nodes = list(facts.sessions), list(facts.nodes)
        for batch in of_sessions:
            all_sessions += (await self._look_once(pool, batch, ())).sessions
        for batch in of_nodes:
            all_nodes += (await self._look_once(pool, (), batch)).nodes
        return PoolFacts(
            pool=pool,
            at_ms=facts.at_ms,
            registry_ms=facts.registry_ms,
            counters=facts.counters,
            sessions=tuple(all_sessions),
            nodes=tuple(all_nodes),
        )

    async def _look_once(
        self, pool: str, sessions: tuple[str, ...], nodes: tuple[str, ...]
    ) -> PoolFacts:
        _, rest = await self._connection.call(
            "inspect", pool, session_ids=" ".join(sessions), node_ids=" ".join(nodes)
        )
        return fact_replies.pool(pool, rest)

    async def pools(self, pool: str) -> list[str]:
        """Return the pools that were ever used on the server that would hold *pool*, sorted."""
        found, cursor = set[str](), "0"
        while True:
            reply = await self._connection.command(
                pool, "SCAN", cursor, "MATCH", keys.COUNTERS_OF_ALL, "COUNT", SCAN_STEP
            )
            raw_cursor, raw_names = cast("list[object]", reply)
            found |= {name.partition("{")[2].partition("}")[0] for name in _texts(raw_names)}
            cursor = _text(raw_cursor)
            if cursor == "0":
                return sorted(found)

    async def line(self, pool: str) -> AsyncIterator[tuple[str, int]]:
        """Yield who waits with the ticket, in order; nobody who waits all the while is left out."""
        after = "-inf"
        while True:
            page = await self._page(pool, after)
            for name, ticket in page:
                yield name, ticket
            if len(page) < PAGE:
                return
            after = f"({page[-1][1]}"  # tickets are unique, so no page splits a score

    async def line_length(self, pool: str) -> int:
        """Return how many wait."""
        return int(cast("int", await self._connection.command(pool, "ZCARD", keys.line_key(pool))))

    async def node_ids(self, pool: str) -> list[str]:
        """Return the nodes that have a lease, up to ten thousand."""
        names = await self._connection.command(
            pool, "ZRANGE", keys.nodes_key(pool), 0, 10 * PAGE - 1
        )
        return _texts(names)

    async def session_ids(self, pool: str, *, most: int) -> list[str]:
        """Return up to *most* live sessions: who holds a slot, then who waits, then the rest.

        The rest are those that only have a deadline: there are none in a sound registry.
        """
        found: dict[str, None] = {}
        for batch in _batches(await self.node_ids(pool), LOOK_AT_ONCE):
            questions = [("ZRANGE", keys.slots_key(pool, node_id), 0, -1) for node_id in batch]
            for members in await self._connection.commands(pool, questions):
                held = (name for name in _texts(members) if not name.startswith("!"))
                found.update((name, None) for name in held)
            if len(found) >= most:
                break
        async for name, _ in self.line(pool):
            if len(found) >= most:
                break
            found[name] = None
        start = 0
        while len(found) < most:
            page = _texts(
                await self._connection.command(
                    pool, "ZRANGE", keys.deadlines_key(pool), start, start + PAGE - 1
                )
            )
            found.update((name, None) for name in page)
            if len(page) < PAGE:
                break
            start += PAGE
        return list(islice(found, most))

    async def keys(self, pool: str) -> AsyncIterator[list[KeyFacts]]:
        """Yield all keys of the pool, some at a time; a key may come twice."""
        cursor = "0"
        while True:
            reply = await self._connection.command(
                pool, "SCAN", cursor, "MATCH", f"{keys.prefix(pool)}*", "COUNT", SCAN_STEP
            )
            raw_cursor, raw_names = cast("list[object]", reply)
            cursor = _text(raw_cursor)
            yield await self._keys(pool, _texts(raw_names))
            if cursor == "0":
                return

    async def idempotency_owners(self, pool: str, digests: Iterable[str]) -> dict[str, str]:
        """Return the session that each idempotency key belongs to, '' for one that is gone."""
        found: dict[str, str] = {}
        for batch in _batches(digests, SCAN_STEP):
            questions = [("GET", keys.idempotency_key(pool, digest)) for digest in batch]
            answers = await self._connection.commands(pool, questions)
            for digest, raw in zip(batch, answers, strict=True):
                found[digest] = "" if raw is None else _text(raw).split(" ", 1)[0]
        return found

    async def _keys(self, pool: str, names: list[str]) -> list[KeyFacts]:
        questions = [(word, name) for name in names for word in ("TYPE", "PTTL")]
        answers = await self._connection.commands(pool, questions)
        return [
            _key(name, _text(found_type), int(cast("int", lifetime)))
            for name, found_type, lifetime in zip(names, answers[::2], answers[1::2], strict=True)
        ]

    async def _page(self, pool: str, after: str) -> list[tuple[str, int]]:
        key = keys.line_key(pool)
        reply = await self._connection.command(
            pool, "ZRANGE", key, after, "+inf", "BYSCORE", "LIMIT", 0, PAGE, "WITHSCORES"
        )
        return [(_text(name), int(float(_text(score)))) for name, score in _pairs(reply)]


def _key(name: str, found_type: str, lifetime_ms: int) -> KeyFacts:
    kind = keys.kind_of(name)
    part = name.split("}:", 1)[1]
    return KeyFacts(
        name=part,
        kind=kind.suffix if kind else "",
        subject=part.split(":", 1)[1] if kind is not None and "<" in kind.suffix else "",
        type_fits=kind is not None and found_type in (kind.type, "none"),
        lasting=kind is not None and kind.lasting,
        lifetime_ms=lifetime_ms,
    )


def _batches(names: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    rest = iter(names)
    while batch := tuple(islice(rest, size)):
        yield batch


def _pairs(reply: object) -> Iterable[tuple[object, object]]:
    """Read members with scores: newer protocols send pairs, older ones a flat list."""
    items = cast("list[object]", reply)
    if items and isinstance(items[0], list):
        return cast("list[tuple[object, object]]", items)
    return zip(items[::2], items[1::2], strict=True)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _texts(values: object) -> list[str]:
    return [_text(value) for value in cast("list[object]", values)]
