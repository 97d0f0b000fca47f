"""How does a waiter learn that something changed?  (a hint, never truth)

Pub/sub loses messages without a word, above all around a reconnect. So every new subscription is
itself a hint: whoever waits here reads the registry then, and is up to date whatever was missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import redis.exceptions

from shared.store import keys
from shared.store.connection import Connection

_RETRY_S = 0.5


async def assignment_hints(connection: Connection, pool: str, node_id: str) -> AsyncIterator[None]:
    """Yield when something may have changed for *node_id*: at (re)subscription and at each hint."""
    channel = keys.assignments_channel(pool, node_id)
    while True:
        subscriber = connection.pubsub()
        try:
            await subscriber.subscribe(channel)
            async for _message in subscriber.listen():
                yield
        except (redis.exceptions.RedisError, OSError):
            await asyncio.sleep(_RETRY_S)
        finally:
            await subscriber.aclose()  # type: ignore[no-untyped-call]
