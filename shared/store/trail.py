"""What happened in a pool, in order?

Reads the audit trail ``ev``. `follow` has a connection of its own, since a blocked reader must not
hold up anybody; everything else goes over the shared one, a page at a time. The trail is trimmed to
about ten thousand entries, so every answer is bounded by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import redis.exceptions

from shared.errors import StoreUnavailable
from shared.events import Event, event
from shared.store import keys
from shared.store.connection import Connection

PAGE = 1000
_BLOCK_MS = 1000
_ANSWER_WITHIN_S = 5.0


class Trail:
    """Reads one registry's audit trails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, pool: str, *, since: str = "-", until: str = "+") -> AsyncIterator[Event]:
        """Yield the entries from *since* until *until* (ids, both included), oldest first."""
        after = since
        while True:
            reply = await self._connection.command(
                pool, "XRANGE", keys.trail_key(pool), after, until, "COUNT", PAGE
            )
            page = _entries(reply)
            for entry in page:
                yield entry
            if len(page) < PAGE:
                return
            after = f"({page[-1].id}"

    async def latest(self, pool: str, count: int) -> list[Event]:
        """Return the last *count* entries, oldest first."""
        reply = await self._connection.command(
            pool, "XREVRANGE", keys.trail_key(pool), "+", "-", "COUNT", count
        )
        return _entries(reply)[::-1]

    async def first(self, pool: str) -> Event | None:
        """Return the oldest entry that is kept."""
        reply = await self._connection.command(
            pool, "XRANGE", keys.trail_key(pool), "-", "+", "COUNT", 1
        )
        return next(iter(_entries(reply)), None)

    async def is_trimmed(self, pool: str) -> bool:
        """Whether the trail no longer holds everything that was ever written to it."""
        name = keys.trail_key(pool)
        if not await self._connection.command(pool, "EXISTS", name):
            return False
        told = _fields(await self._connection.command(pool, "XINFO", "STREAM", name))
        return int(told["entries-added"]) > int(told["length"])

    async def follow(self, pool: str, after: str) -> AsyncIterator[Event]:
        """Yield what comes after the id *after*, for ever.

        Raises:
            StoreUnavailable: The connection is lost. Follow again from the last id that came.
        """
        client, key = self._connection.own_client(pool), keys.trail_key(pool)
        try:
            while True:
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    reply = await client.execute_command(  # type: ignore[no-untyped-call]
                        "XREAD", "COUNT", PAGE, "BLOCK", _BLOCK_MS, "STREAMS", key, after
                    )
                for entry in _entries(_of_stream(reply)):
                    yield entry
                    after = entry.id
        except (redis.exceptions.RedisError, OSError, TimeoutError) as fault:
            raise StoreUnavailable(why="no connection") from fault
        finally:
            await client.aclose()


def _of_stream(reply: object) -> object:
    """Return the entries of the only stream that was asked for; nothing came in time: none."""
    if not reply:
        return []
    if isinstance(reply, dict):
        return next(iter(reply.values()))
    return cast("list[list[object]]", reply)[0][1]


def _entries(reply: object) -> list[Event]:
    return [
        event(_text(entry_id), _fields(fields))
        for entry_id, fields in cast("list[tuple[object, object]]", reply)
        if fields
    ]


def _fields(fields: object) -> dict[str, str]:
    if isinstance(fields, dict):
        return {_text(name): _text(value) for name, value in fields.items()}
    flat = [_text(item) for item in cast("list[object]", fields)]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
