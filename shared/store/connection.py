"""How is Redis reached, and what when it is not?

One rule for every caller: an answer within ``answer_within_s`` or `StoreUnavailable`, never a hang.
Every script may be repeated, so sending a call again whose reply was lost is safe.

Scripts share one connection (`multiplexer`); the rest has a small pool. A cluster has both once per
pool of ours, since each of those lives on one of its nodes and may move on its own (`endpoints`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import NoReturn, TypeVar, cast

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.exceptions

from shared.errors import StoreUnavailable
from shared.lifecycle import Background, in_thread
from shared.redis_url import Address
from shared.store import keys
from shared.store.connecting import connection_options
from shared.store.endpoints import ANSWER_WITHIN_S, ELSEWHERE, Elsewhere, Endpoints, Nowhere
from shared.store.multiplexer import Multiplexer
from shared.store.patience import awake_timeout
from shared.store.scripts import Argument, Reply, load

T = TypeVar("T")

_CONNECTIONS = 4
WATCH_PRIMARY_EVERY_S = 1.0

Observe = Callable[[str, float], None]
"""Called after each script with its name and the seconds that it took, round trip included."""


FAULTS = ("timeout", "loading", "refused", "moved", "unreachable", "other")
"""Why a call wasn't answered, in words that can be counted."""

_TRANSIENT = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.AskError,
    redis.exceptions.TryAgainError,
    OSError,
    TimeoutError,
)
_TRANSIENT_WORDS = ("BUSY", "NOREPLICAS", "MISCONF")
"""Replies that say "not now" and have no class in redis-py."""
_SAID = (
    # As servers say it of a command, of a key, and within a script.
    (r"^(NOPERM|The user executing the script)|has no permissions",
     "its user list doesn't let our user do that"),
    (r"DB index|SELECT is not allowed", "it has no database of this number"),
    (r"^Protocol error", "what answers at this address isn't Redis"),
)  # fmt: skip
"""Replies that can only be told by their words."""
_FOREIGN = re.compile(r"WRONGTYPE|holding the wrong kind of value")
_FOREIGN_WORDS = "a key of ours is of another kind; `greenroom audit` names it"


def unavailable(fault: Exception) -> StoreUnavailable | None:
    """Name what may pass, in words that carry no address and no secret; None: a bug of ours."""
    match fault:
        case TimeoutError() | redis.exceptions.TimeoutError():
            why = "no answer in time"
        case Nowhere() | Elsewhere():
            why = str(fault)
        case redis.exceptions.BusyLoadingError():
            why = "it is loading its data"
        case redis.exceptions.AuthenticationError():
            why = "it refuses our password"
        case _ if words := _told_by(str(fault)):
            why = words
        case redis.exceptions.ConnectionError() | OSError():
            why = "no connection"
        case redis.exceptions.MovedError():
            why = "it is part of a cluster, whose address begins with redis+cluster"
        case redis.exceptions.AskError():
            why = "this pool is being moved to another node of the cluster"
        case _ if isinstance(fault, _TRANSIENT) or str(fault).startswith(_TRANSIENT_WORDS):
            why = f"it can't serve now: {type(fault).__name__}"
        case _:
            is_foreign = _FOREIGN.search(str(fault)) is not None
            return StoreUnavailable(why=_FOREIGN_WORDS, damaged=True) if is_foreign else None
    return StoreUnavailable(why=why)


def _kind_of(fault: Exception) -> str:
    match fault:
        case TimeoutError() | redis.exceptions.TimeoutError():
            return "timeout"
        case redis.exceptions.BusyLoadingError():
            return "loading"
        case redis.exceptions.AuthenticationError() | redis.exceptions.NoPermissionError():
            return "refused"
        case Elsewhere() | redis.exceptions.MovedError() | redis.exceptions.AskError():
            return "moved"
        case Nowhere() | redis.exceptions.ConnectionError() | OSError():
            return "unreachable"
        case _:
            return "other"


def _told_by(text: str) -> str | None:
    return next((why for said, why in _SAID if re.search(said, text, re.IGNORECASE)), None)


class _Link:
    """The connections to the server of one pool, or of all if they are always together."""

    def __init__(self, endpoints: Endpoints, pool: str, answer_within_s: float) -> None:
        options = connection_options(endpoints, pool, socket_connect_timeout=answer_within_s)
        shared = redis.asyncio.ConnectionPool(**options)
        self.scripts = Multiplexer(shared.make_connection, silence_s=2 * answer_within_s)
        self.rest = redis.asyncio.Redis.from_pool(
            redis.asyncio.BlockingConnectionPool(
                max_connections=_CONNECTIONS,
                timeout=answer_within_s,
                retry=redis.asyncio.retry.Retry(redis.backoff.ConstantBackoff(0.02), 1),
                **options,
            )
        )
        """For the few commands that aren't scripts; those don't share a connection."""

    async def leave(self) -> None:
        """Take other connections: the server is another one now."""
        self.scripts.leave()
        await self.rest.connection_pool.disconnect(inuse_connections=False)

    async def aclose(self) -> None:
        await self.scripts.aclose()
        await self.rest.aclose(close_connection_pool=True)


class Connection:
    """The async connection that a replica or a node shares; calls scripts by name."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self.endpoints = Endpoints(url)
        self.observe: Observe | None = None
        self.observe_fault: Callable[[str], None] | None = None
        self._answer_within_s = answer_within_s
        self._links: dict[str, _Link] = {}
        self._tasks = Background()

    async def call(self, script: str, pool: str, /, **named: Argument) -> tuple[str, Reply]:
        """Run *script* on *pool* and return its status word and fields.

        Raises:
            StoreUnavailable: No answer in time, or the server can't serve now.
        """
        loaded = load(script)
        arguments = loaded.arguments(named)
        prefix = keys.prefix(pool)
        scripts = self._link(pool).scripts
        started_s = time.perf_counter()

        async def run() -> object:
            try:
                return await scripts.send(("EVALSHA", loaded.digest, 1, prefix, *arguments))
            except redis.exceptions.NoScriptError:
                return await scripts.send(("EVAL", loaded.source, 1, prefix, *arguments))

        reply = await self.bounded(run(), scripts)
        if self.observe is not None:
            self.observe(script, time.perf_counter() - started_s)
        return loaded.check(reply)

    async def get(self, pool: str, key: str) -> bytes | None:
        """Return the raw string at *key*, which belongs to *pool*."""
        return cast("bytes | None", await self.bounded(self._link(pool).rest.get(key)))

    async def command(self, pool: str, *parts: str | int) -> object:
        """Send one command on keys of *pool*, harmless when repeated; return its raw reply.

        None of those that scripts write: they are only read.
        """
        return (await self.commands(pool, [parts]))[0]

    async def commands(self, pool: str, commands: Iterable[Sequence[str | int]]) -> list[object]:
        """Send such commands in one go, and return their raw replies.

        Raises:
            StoreUnavailable: No answer in time, or the server can't serve now.
        """
        batch = self._link(pool).rest.pipeline(transaction=False)
        for parts in commands:
            batch.execute_command(*parts)
        return await self.bounded(batch.execute())

    async def ping(self, pool: str = "default") -> float:
        """Return the round trip to the server of *pool* in seconds."""
        started_s = time.perf_counter()
        await self.bounded(self._link(pool).rest.ping())
        return time.perf_counter() - started_s

    async def bounded(self, call: Awaitable[T], over: Multiplexer | None = None) -> T:
        """Await one Redis call with the bound and the error rule of this module.

        Who waits *over* a connection that can't be made is told why, not only that it took long.
        """
        try:
            async with awake_timeout(self._answer_within_s):
                return await call
        except (redis.exceptions.RedisError, OSError, TimeoutError) as fault:
            cause = over.fault if over and isinstance(fault, TimeoutError) else None
            if (told := unavailable(cause or fault)) is None:
                raise
            if self.observe_fault is not None:
                self.observe_fault(_kind_of(cause or fault))
            raise told from fault

    def pubsub(self, pool: str) -> redis.asyncio.client.PubSub:
        """Return a subscriber on a connection of its own, which may stay silent for long.

        In a cluster it hears the channels of all pools: each node passes messages on to the others.
        """
        return self.own_client(pool).pubsub()

    def own_client(self, pool: str) -> redis.asyncio.Redis:
        """Return a client that shares no connection, so it may block.

        The caller bounds each call and closes the client.
        """
        options = connection_options(
            self.endpoints, pool, socket_connect_timeout=self._answer_within_s
        )
        return redis.asyncio.Redis.from_pool(redis.asyncio.ConnectionPool(**options))

    async def aclose(self) -> None:
        """Close all connections; harmless when done twice."""
        await self._tasks.aclose()
        for link in self._links.values():
            await link.aclose()

    def _link(self, pool: str) -> _Link:
        """Return the connections that *pool* uses; the same ones each time."""
        group = self.endpoints.group(pool)
        if (link := self._links.get(group)) is None:
            link = self._links[group] = _Link(self.endpoints, pool, self._answer_within_s)
            if self.endpoints.must_be_watched:
                self._tasks.start("watch-primary", self._watch_primary(link, pool))
        return link

    async def _watch_primary(self, link: _Link, pool: str) -> NoReturn:
        """Leave a primary that was replaced while it lives; nothing else would tell in time."""
        seen: Address | None = None
        while True:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                now = await in_thread("find-redis", partial(self.endpoints.find, pool))
                if seen not in (None, now):
                    await link.leave()
                seen = now
            await asyncio.sleep(WATCH_PRIMARY_EVERY_S)


class BlockingConnection:
    """The heartbeat thread's own connection: it must work while the event loop is stuck."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._endpoints = Endpoints(url)
        self._answer_within_s = answer_within_s
        self._client: redis.Redis | None = None
        self._of_pool = ""
        self._where: Address | None = None

    def call(self, script: str, pool: str, /, **named: Argument) -> tuple[str, Reply]:
        """Run *script* on *pool*; like `Connection.call`, from a thread.

        Sent again only if the server didn't run it, because the pool is on another one now.
        """
        loaded = load(script)
        arguments = loaded.arguments(named)

        def run() -> object:
            client = self._at(pool)
            try:
                return client.evalsha(loaded.digest, 1, keys.prefix(pool), *arguments)
            except redis.exceptions.NoScriptError:
                return client.eval(loaded.source, 1, keys.prefix(pool), *arguments)

        try:
            try:
                reply = run()
            except ELSEWHERE as fault:
                self._leave(pool, fault)
                reply = run()
        except (redis.exceptions.RedisError, OSError) as fault:
            self.close()
            if (told := unavailable(fault)) is None:
                raise
            raise told from fault
        return loaded.check(reply)

    def close(self) -> None:
        """Close the connection; harmless when done twice, and the next call makes a new one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _at(self, pool: str) -> redis.Redis:
        """Return the client of the server that holds *pool* now."""
        if self._of_pool != pool or self._has_been_replaced():
            self.close()
        if self._client is None:
            self._where, self._of_pool = self._endpoints.find(pool), pool
            self._client = self._endpoints.client(self._where, self._answer_within_s)
        return self._client

    def _has_been_replaced(self) -> bool:
        if self._client is not None and self._endpoints.must_be_watched:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                return self._endpoints.find(self._of_pool) != self._where
        return False

    def _leave(self, pool: str, fault: Exception) -> None:
        self.close()
        if self._endpoints.finder is not None:
            self._endpoints.finder.learn(pool, fault)
