"""How does a waiter learn of a change? By a hint, which is never the truth.

Pub/sub loses messages without a word, above all around a reconnect. So every new subscription is
itself a hint: whoever waits here reads the registry then, and is up to date whatever was missed.

A subscriber that hears nothing can't tell a quiet channel from a cut wire, so it asks now and then
and takes a new connection when nothing answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import redis.asyncio.client
import redis.exceptions

from shared.store import keys
from shared.store.connection import Connection
from shared.store.endpoints import ANSWER_WITHIN_S

_RETRY_S = 0.5
_SILENCE_S = 10.0
"""How long a channel may be quiet before we ask, and how long the answer may then take."""


def assignment_hints(connection: Connection, pool: str, node_id: str) -> AsyncIterator[str | None]:
    """Yield when something may have changed for *node_id*: at (re)subscription and at each hint."""
    return _hints(connection, pool, [keys.assignments_channel(pool, node_id)])


def session_hints(
    connection: Connection, pools: Iterable[str], replica: str
) -> AsyncIterator[str | None]:
    """Yield sessions of *pools* that may have changed; None at (re)subscription: any may have."""
    names = tuple(pools)
    return _hints(connection, names[0], [keys.changes_channel(pool, replica) for pool in names])


async def _hints(
    connection: Connection, pool: str, channels: Iterable[str]
) -> AsyncIterator[str | None]:
    """Yield the text of each hint, and None when anything may have been missed."""
    while True:
        subscriber = connection.pubsub(pool)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await subscriber.subscribe(*channels)
            async for text in _messages(subscriber):
                yield text
        except (redis.exceptions.RedisError, OSError, TimeoutError):
            await asyncio.sleep(_RETRY_S)
        finally:
            await subscriber.aclose()  # type: ignore[no-untyped-call]


async def _messages(subscriber: redis.asyncio.client.PubSub) -> AsyncIterator[str | None]:
    """Yield the text of each message, and None for each confirmed subscription."""
    was_asked = False
    while True:
        message = await subscriber.get_message(timeout=_SILENCE_S)
        if message is None:
            if was_asked:
                raise redis.exceptions.ConnectionError("no reply")
            was_asked = True
            await subscriber.ping()
            continue
        was_asked = False
        if message["type"] == "message":
            yield message["data"].decode()
        elif message["type"] == "subscribe":
            yield None
