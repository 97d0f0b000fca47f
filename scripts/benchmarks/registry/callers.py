"""How many calls can one replica make, over its shared connection and over redis-py's pool?

The same commands by as many tasks, on the event loop that replicas run on, in turns so that both
meet the same machine. Beside the calls per second stands the processor time of this process for
each: the server has the other core.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import redis.asyncio
import uvloop
from redis.asyncio.connection import ConnectionPool

from scripts.benchmarks.registry.crowd import Crowd
from scripts.benchmarks.registry.server_cost import Client
from shared.store import Registry
from shared.store.connection import Connection
from shared.store.multiplexer import Command, Multiplexer

TASKS = 50
_ROUNDS = 5
_EMPTY_SCRIPT = "#!lua\nreturn 1"

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Calls per second, and what one cost the caller."""

    per_s: float
    cpu_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One kind of call, both ways."""

    call: str
    pool: Rate
    shared: Rate

    @property
    def ratio(self) -> float:
        """Return how many times as many calls the shared connection makes."""
        return self.shared.per_s / self.pool.per_s


def measure(client: Client, url: str, calls: int, note: Callable[[str], None]) -> list[Pair]:
    """Make so many *calls* of each kind in each round, over both."""
    client.flushall()
    crowd = Crowd(client, "callers")
    crowd.open(1)
    (name,) = crowd.line()
    note(f"{calls} calls of {TASKS} tasks, {_ROUNDS} rounds")
    empty = client.script_load(_EMPTY_SCRIPT)
    return uvloop.run(_compare(url, crowd, name, empty, calls))


async def _compare(url: str, crowd: Crowd, name: str, empty: str, calls: int) -> list[Pair]:
    pool = redis.asyncio.Redis.from_url(url, max_connections=TASKS)
    shared = Multiplexer(ConnectionPool.from_url(url).make_connection)
    registry, pooled = Registry.connect(url), _over_pool(url, crowd.pool, pool)
    kinds: list[tuple[str, Call, Call]] = [
        ("GET", lambda: pool.get("plain"), lambda: shared.send(("GET", "plain"))),
        (
            "empty script",
            lambda: pool.evalsha(empty, 1, crowd.prefix),
            lambda: shared.send(("EVALSHA", empty, 1, crowd.prefix)),
        ),
        ("registry.read", lambda: pooled.read(name), lambda: registry.read(name)),
    ]
    try:
        return [await _pair(*kind, calls) for kind in kinds]
    finally:
        await registry.aclose()
        await pooled.aclose()
        await shared.aclose()
        await pool.aclose(close_connection_pool=True)


class _PoolAsScripts:
    """Redis-py's pool in the place of the multiplexer: all else of a registry stays the same."""

    def __init__(self, pool: redis.asyncio.Redis) -> None:
        self._pool = pool

    def send(self, command: Command) -> Awaitable[object]:
        return cast("Awaitable[object]", self._pool.execute_command(*command))  # type: ignore[no-untyped-call]

    async def aclose(self) -> None:
        """The pool belongs to somebody else."""


def _over_pool(url: str, of_pool: str, pool: redis.asyncio.Redis) -> Registry:
    connection = Connection(url)
    link = connection._link(of_pool)  # noqa: SLF001 - what is compared lies inside
    link.scripts = cast("Multiplexer", _PoolAsScripts(pool))
    return Registry(connection, Connection(url))


async def _pair(kind: str, over_pool: Call, over_shared: Call, calls: int) -> Pair:
    pool, shared = [], []
    for _ in range(_ROUNDS):
        pool.append(await _rate(over_pool, calls))
        shared.append(await _rate(over_shared, calls))
    return Pair(call=kind, pool=_middle(pool), shared=_middle(shared))


async def _rate(call: Call, calls: int) -> Rate:
    async def some() -> None:
        for _ in range(calls // TASKS):
            await call()

    started_s, used_s = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(TASKS):
            tasks.create_task(some())
    elapsed_s, used_s = time.perf_counter() - started_s, time.process_time() - used_s
    return Rate(per_s=calls / elapsed_s, cpu_us=used_s / calls * 1e6)


def _middle(rates: list[Rate]) -> Rate:
    return Rate(
        per_s=statistics.median(rate.per_s for rate in rates),
        cpu_us=statistics.median(rate.cpu_us for rate in rates),
    )
