"""How does a connection stay with its pool when that moves to another server?

Each time it connects it first asks where the pool is now (`endpoints`), and makes sure that what it
meets is a primary. A server that answers that it doesn't hold the pool any more is left: that looks
like a lost connection, so everything that survives one survives a failover too.

redis-py makes the connection itself (TLS, password, protocol).
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import hiredis
import redis.asyncio
import redis.asyncio.connection
import redis.asyncio.retry
import redis.backoff
import redis.exceptions
from redis.asyncio.connection import AbstractConnection

from shared.lifecycle import in_thread
from shared.redis_url import Kind
from shared.store.endpoints import ELSEWHERE, Elsewhere, Endpoints, Nowhere, leads


def connection_options(endpoints: Endpoints, pool: str, **options: Any) -> dict[str, Any]:
    """Return what a pool of connections needs to reach the server of *pool*, wherever it is.

    Without a read timeout: with one, redis-py sends each write through ``asyncio.wait_for``, which
    on Python 3.11 swallows a cancellation that comes just when the write is done, so a task that
    is asked to stop would go on for ever. Every caller bounds its calls itself.
    """
    parsed = redis.asyncio.connection.parse_url(endpoints.server_url())
    kind = parsed.pop("connection_class", redis.asyncio.connection.Connection)
    merged = {**parsed, "socket_timeout": None, **options}
    if kind is redis.asyncio.connection.UnixDomainSocketConnection:
        return {**merged, "connection_class": LocalConnection}
    if endpoints.url.kind is Kind.SENTINEL:
        merged["redis_connect_func"] = _greet_primary
    secure = kind is redis.asyncio.connection.SSLConnection
    return {
        **merged,
        "connection_class": SecureConnection if secure else FollowingConnection,
        "endpoints": endpoints,
        "of_pool": pool,
    }


class _Writing(AbstractConnection):
    """What all connections have in common."""

    def pack_command(self, *args: Any) -> list[bytes]:
        """Write a command as bytes, by the library in C that reads replies as well.

        What it doesn't know (a command of two words, what can't be written) redis-py knows better.
        """
        name = args[0]
        if isinstance(name, str) and " " not in name:
            with contextlib.suppress(TypeError):
                return [hiredis.pack_command(args)]
        packed: list[bytes] = super().pack_command(*args)
        return packed

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        """Write; that the connection has gone meanwhile is one and the same on every event loop.

        uvloop, on which replicas run, has a RuntimeError for it, which nobody takes for a loss.
        """
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as closed:
            raise redis.exceptions.ConnectionError("the connection has gone") from closed


class LocalConnection(_Writing, redis.asyncio.connection.UnixDomainSocketConnection):
    """A connection to a server on this machine, which is always the same."""


class _Following(_Writing):
    """What plain and TLS connections have in common."""

    def __init__(self, *, endpoints: Endpoints, of_pool: str, **options: Any) -> None:
        super().__init__(**options)
        self._finder = endpoints.finder
        self._of_pool = of_pool

    async def connect(self) -> None:
        """Ask where the pool is, unless connected already, and connect to there."""
        if self._finder is not None and not self.is_connected:
            find = partial(self._finder.find, self._of_pool)
            self.host, self.port = await in_thread("find-redis", find)
        await super().connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Read one reply; one that says that the pool isn't here ends the connection."""
        try:
            return await super().read_response(*args, **options)
        except ELSEWHERE as fault:
            if self._finder is None and not isinstance(fault, redis.exceptions.ReadOnlyError):
                raise
            if self._finder is not None:
                self._finder.learn(self._of_pool, fault)
            await self.disconnect()
            raise Elsewhere("the pool is on another server now") from fault


class FollowingConnection(_Following, redis.asyncio.connection.Connection):
    """A connection to wherever the pool is."""


class SecureConnection(_Following, redis.asyncio.connection.SSLConnection):
    """The same with TLS."""


async def _greet_primary(connection: AbstractConnection) -> None:
    """Log in, and refuse a server that doesn't lead: Sentinels may be behind."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    try:
        reply = await connection.read_response()
    except redis.exceptions.NoPermissionError:
        return  # it can't be told; the first write will
    if not leads(reply):
        raise Nowhere("the primary is being replaced")
