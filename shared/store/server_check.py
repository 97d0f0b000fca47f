"""Can this server hold the registry?

Asked once at the start, of every server that may hold a pool. One that is too old or may evict keys
is refused, since it would lose sessions without a word; whatever else an operator should know is a
concern: it is logged, stands in the answers about health, and stops nobody.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import redis
import redis.exceptions
import structlog

from shared.errors import StartupError, StoreUnavailable
from shared.lifecycle import in_thread
from shared.redis_url import Kind
from shared.store.connection import unavailable
from shared.store.endpoints import ANSWER_WITHIN_S, Endpoints

_OLDEST_SERVER = (7, 0)
_TRY_AGAIN_S = 0.1
_CLOCK_LOOKS = 3
CLOCKS_AGREE_WITHIN_S = 1.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What one server tells of itself."""

    version: str
    eviction: str
    mode: str
    """standalone, cluster or sentinel."""
    serves_all_slots: bool
    """Only of interest in a cluster."""
    keeps_log: bool
    """It has an append-only file."""
    clock_ahead_s: float
    """Of this machine's clock."""
    round_trip_s: float = 0.0
    """The quickest of a few."""
    log_written: bool = True
    """The last write to the append-only file went well."""
    memory_share: float = 0.0
    """Of what it may use; 0 without a limit."""


async def check_servers(endpoints: Endpoints, *, within_s: float) -> tuple[str, ...]:
    """Wait for the servers, refuse what could lose sessions, and return the concerns.

    Raises:
        StartupError: Not reachable within *within_s*, too old, not what the URL says, or it evicts.
    """
    facts = await _facts(endpoints, within_s)
    for server in facts:
        refuse(server, endpoints.url.kind)
    ahead_s = max((server.clock_ahead_s for server in facts), key=abs)
    _log.info(
        "redis_checked",
        servers=len(facts),
        version=facts[0].version,
        append_only=all(server.keeps_log for server in facts),
        clock_ahead_ms=round(ahead_s * 1000),
    )
    found = tuple(dict.fromkeys(text for server in facts for text in concerns(server)))
    for text in found:
        _log.warning("redis_concern", text=text)
    return found


async def look_at_servers(url: str, *, within_s: float) -> tuple[ServerFacts, ...]:
    """Return what the servers of *url* tell, whatever that is.

    Raises:
        StartupError: Not reachable within *within_s*.
    """
    return tuple(await _facts(Endpoints(url), within_s))


def refuse(server: ServerFacts, kind: Kind) -> None:
    """Refuse a server that could lose sessions or isn't what the URL says; raises StartupError."""
    if server.mode == "sentinel":
        raise StartupError(
            "This is a Sentinel, which holds no data.",
            try_="--redis-url redis+sentinel://HOST:26379/SERVICE",
        )
    if kind is Kind.SERVER and server.mode == "cluster" and not server.serves_all_slots:
        raise StartupError(
            "This Redis is one of several nodes of a cluster.",
            try_="--redis-url redis+cluster://HOST:6379,HOST:6379",
        )
    if tuple(int(part) for part in server.version.split(".")[:2]) < _OLDEST_SERVER:
        raise StartupError(
            f"This Redis is {server.version}; Greenroom needs 7.0 or newer.",
            try_="upgrade it, or use Valkey 8 or newer",
        )
    if server.eviction != "noeviction":
        raise StartupError(
            f"This Redis may evict keys (maxmemory-policy {server.eviction}), "
            "which would lose sessions.",
            try_="redis-cli CONFIG SET maxmemory-policy noeviction",
        )


def concerns(server: ServerFacts) -> tuple[str, ...]:
    """Return what an operator should know, one sentence each."""
    found = []
    if not server.keeps_log:
        found.append(
            "Redis keeps no append-only file: when it restarts, everybody who waits loses the "
            "place in line (redis-cli CONFIG SET appendonly yes)."
        )
    if abs(server.clock_ahead_s) > CLOCKS_AGREE_WITHIN_S:
        side = "ahead of" if server.clock_ahead_s > 0 else "behind"
        found.append(
            f"The clock of Redis is {abs(server.clock_ahead_s):.1f} s {side} this machine's: times "
            "shown to people are off by that; order, leases and deadlines follow Redis's clock "
            "alone and are right."
        )
    return tuple(found)


async def _facts(endpoints: Endpoints, within_s: float) -> list[ServerFacts]:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return await _look(endpoints, max(ANSWER_WITHIN_S, deadline_s - time.monotonic()))
        except StoreUnavailable as fault:
            if time.monotonic() > deadline_s:
                raise StartupError(
                    f"Redis can't be reached within {within_s:.0f} s ({fault.why}).",
                    try_="start it, or name the right one with --redis-url",
                ) from fault
            await asyncio.sleep(_TRY_AGAIN_S)


async def _look(endpoints: Endpoints, within_s: float) -> list[ServerFacts]:
    def ask() -> list[ServerFacts]:
        return [_ask(client) for client in endpoints.clients()]

    try:
        async with asyncio.timeout(within_s):
            return await in_thread("check-redis", ask)
    except (redis.exceptions.RedisError, OSError, TimeoutError) as fault:
        if (told := unavailable(fault)) is None:
            raise
        raise told from fault


def _ask(client: redis.Redis) -> ServerFacts:
    # Not CONFIG GET: hosted servers often refuse it.
    info = client.info()
    if int(info.get("loading", 0)):  # INFO is answered then, with less than the truth
        raise redis.exceptions.BusyLoadingError
    mode = str(info.get("server_mode") or info.get("redis_mode", "standalone"))
    round_trip_s, ahead_s = (0.0, 0.0) if mode == "sentinel" else _look_at_clock(client)
    limit_bytes = int(info.get("maxmemory", 0))
    return ServerFacts(
        version=str(info.get("valkey_version") or info["redis_version"]),
        eviction=str(info.get("maxmemory_policy", "noeviction")),
        mode=mode,
        serves_all_slots=mode != "cluster" or _is_alone(client),
        keeps_log=bool(int(info.get("aof_enabled", 0))) or mode == "sentinel",
        clock_ahead_s=ahead_s,
        round_trip_s=round_trip_s,
        log_written=info.get("aof_last_write_status", "ok") == "ok",
        memory_share=int(info.get("used_memory", 0)) / limit_bytes if limit_bytes else 0.0,
    )


def _is_alone(client: redis.Redis) -> bool:
    told = client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]
    text = told.decode() if isinstance(told, bytes) else str(told)
    return "cluster_size:1\r" in f"{text}\r"


def _look_at_clock(client: redis.Redis) -> tuple[float, float]:
    """Return the shortest round trip of a few, and how far ahead the clock was by that look."""
    looks = []
    for _ in range(_CLOCK_LOOKS):
        before_s = time.time()
        seconds, microseconds = client.time()
        after_s = time.time()
        middle_s = (before_s + after_s) / 2
        looks.append((after_s - before_s, seconds + microseconds / 1e6 - middle_s))
    return min(looks)
