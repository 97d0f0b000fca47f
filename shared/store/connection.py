"""How is Redis reached, and what when it is not?

One rule for every caller: an answer within ``answer_within_s`` or `StoreUnavailable`, never a hang.
Every script may be repeated, so sending a call again whose reply was lost is safe.

Scripts share one connection (`multiplexer`); the rest has a small pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, cast

import redis
import redis.asyncio
import redis.asyncio.connection
import redis.asyncio.retry
import redis.backoff
import redis.exceptions
import redis.retry

from shared.errors import StartupError, StoreUnavailable
from shared.store import keys
from shared.store.multiplexer import Multiplexer
from shared.store.scripts import Argument, Reply, load

T = TypeVar("T")

ANSWER_WITHIN_S = 1.0
_CONNECTIONS = 4
_OLDEST_SERVER = (7, 0)

Observe = Callable[[str, float], None]
"""Called after each script with its name and the seconds that it took, round trip included."""


_TRANSIENT = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    OSError,
    TimeoutError,
)
_TRANSIENT_WORDS = ("BUSY", "NOREPLICAS", "MISCONF")
"""Replies that say "not now" and have no class in redis-py."""


def _unavailable(fault: Exception) -> StoreUnavailable | None:
    """Name what may pass, in words that carry no address and no secret; None: a bug of ours."""
    if isinstance(fault, TimeoutError | redis.exceptions.TimeoutError):
        return StoreUnavailable(why="no answer in time")
    if isinstance(fault, redis.exceptions.BusyLoadingError):
        return StoreUnavailable(why="it is loading its data")
    if isinstance(fault, redis.exceptions.AuthenticationError):
        return StoreUnavailable(why="it refuses our password")
    if isinstance(fault, redis.exceptions.ConnectionError | OSError):
        return StoreUnavailable(why="no connection")
    if isinstance(fault, _TRANSIENT) or str(fault).startswith(_TRANSIENT_WORDS):
        return StoreUnavailable(why=f"it can't serve now: {type(fault).__name__}")
    return None


class Connection:
    """The async connection that a replica or a node shares; calls scripts by name."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._answer_within_s = answer_within_s
        self._redis = redis.asyncio.Redis(
            connection_pool=redis.asyncio.BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=answer_within_s,
                socket_timeout=None,  # see `own_client`; `bounded` limits each call
                socket_connect_timeout=answer_within_s,
                retry=redis.asyncio.retry.Retry(redis.backoff.ConstantBackoff(0.02), 1),
            )
        )
        """For the few commands that aren't scripts; those don't share a connection."""
        # No read timeout here: a shared connection may be idle, its silence is watched by itself.
        shared = redis.asyncio.ConnectionPool.from_url(
            url, socket_timeout=None, socket_connect_timeout=answer_within_s
        )
        self._scripts = Multiplexer(shared.make_connection, silence_s=2 * answer_within_s)
        self._url = url
        self.observe: Observe | None = None

    async def call(self, script: str, pool: str, /, **named: Argument) -> tuple[str, Reply]:
        """Run *script* on *pool* and return its status word and fields.

        Raises:
            StoreUnavailable: No answer in time, or the server can't serve now.
        """
        loaded = load(script)
        arguments = loaded.arguments(named)
        prefix = keys.prefix(pool)
        started_s = time.perf_counter()

        async def run() -> object:
            try:
                return await self._scripts.send(("EVALSHA", loaded.digest, 1, prefix, *arguments))
            except redis.exceptions.NoScriptError:
                return await self._scripts.send(("EVAL", loaded.source, 1, prefix, *arguments))

        reply = await self.bounded(run())
        if self.observe is not None:
            self.observe(script, time.perf_counter() - started_s)
        return loaded.check(reply)

    async def get(self, key: str) -> bytes | None:
        """Return the raw string at *key*."""
        return cast("bytes | None", await self.bounded(self._redis.get(key)))

    async def command(self, *parts: str | int) -> object:
        """Send one command that only reads and return its raw reply."""
        return (await self.commands([parts]))[0]

    async def commands(self, commands: Iterable[Sequence[str | int]]) -> list[object]:
        """Send commands that only read, in one go, and return their raw replies.

        Raises:
            StoreUnavailable: No answer in time, or the server can't serve now.
        """
        batch = self._redis.pipeline(transaction=False)
        for parts in commands:
            batch.execute_command(*parts)
        return await self.bounded(batch.execute())

    async def ping(self) -> float:
        """Return the round trip in seconds."""
        started_s = time.perf_counter()
        await self.bounded(self._redis.ping())
        return time.perf_counter() - started_s

    async def bounded(self, call: Awaitable[T]) -> T:
        """Await one Redis call with the bound and the error rule of this module."""
        try:
            async with asyncio.timeout(self._answer_within_s):
                return await call
        except (redis.exceptions.RedisError, OSError, TimeoutError) as fault:
            if (unavailable := _unavailable(fault)) is None:
                raise
            raise unavailable from fault

    async def check(self, *, within_s: float = 5.0) -> None:
        """Wait for the server and refuse one that could lose sessions.

        Raises:
            StartupError: Not reachable within *within_s*, too old, or it evicts keys.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                info = await self.bounded(self._redis.info())
                break
            except StoreUnavailable as fault:
                if time.monotonic() > deadline_s:
                    raise StartupError(
                        f"Redis can't be reached within {within_s:.0f} s ({fault}).",
                        try_="start it, or name the right one with --redis-url",
                    ) from fault
                await asyncio.sleep(0.1)
        # Not CONFIG GET: hosted servers often refuse it.
        _check_server(str(info["redis_version"]), str(info.get("maxmemory_policy", "noeviction")))

    def pubsub(self) -> redis.asyncio.client.PubSub:
        """Return a subscriber on a connection of its own, which may stay silent for long."""
        return self.own_client().pubsub()

    def own_client(self) -> redis.asyncio.Redis:
        """Return a client that shares no connection, so it may block; the caller closes it.

        Its caller also bounds each call. With a timeout of redis-py's own, each write would go
        through ``asyncio.wait_for``, which on Python 3.11 swallows a cancellation that comes just
        when the write is done: a task that is asked to stop would go on for ever.
        """
        return redis.asyncio.Redis.from_url(
            self._url, socket_timeout=None, socket_connect_timeout=self._answer_within_s
        )

    async def aclose(self) -> None:
        """Close all connections; harmless when done twice."""
        await self._scripts.aclose()
        await self._redis.aclose(close_connection_pool=True)


def _check_server(version: str, policy: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_SERVER:
        raise StartupError(
            f"This Redis is {version}; Greenroom needs 7.0 or newer.",
            try_="upgrade it, or use Valkey 8 or newer",
        )
    if policy != "noeviction":
        raise StartupError(
            f"This Redis may evict keys (maxmemory-policy {policy}), which would lose sessions.",
            try_="redis-cli CONFIG SET maxmemory-policy noeviction",
        )


class BlockingConnection:
    """The heartbeat thread's own connection: it must work while the event loop is stuck."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=answer_within_s,
            socket_connect_timeout=answer_within_s,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )

    def call(self, script: str, pool: str, /, **named: Argument) -> tuple[str, Reply]:
        """Run *script* on *pool*; like `Connection.call`, from a thread, without a retry."""
        loaded = load(script)
        arguments = loaded.arguments(named)
        try:
            try:
                reply = self._redis.evalsha(loaded.digest, 1, keys.prefix(pool), *arguments)
            except redis.exceptions.NoScriptError:
                reply = self._redis.eval(loaded.source, 1, keys.prefix(pool), *arguments)
        except (redis.exceptions.RedisError, OSError) as fault:
            if (unavailable := _unavailable(fault)) is None:
                raise
            raise unavailable from fault
        return loaded.check(reply)

    def close(self) -> None:
        """Close the connection; harmless when done twice."""
        self._redis.close()
