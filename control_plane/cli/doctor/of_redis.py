"""Is the registry's server one that loses nobody, and what stands in it?"""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.cli.doctor.findings import Finding, fine, note, wrong
from control_plane.operator_words import node_troubles, spell
from shared.errors import StartupError, StoreUnavailable
from shared.redis_url import parse_redis_url
from shared.states import NodeState
from shared.store import Registry
from shared.store.console import refusals_told
from shared.store.server_check import (
    CLOCKS_AGREE_WITHIN_S,
    ServerFacts,
    look_at_servers,
    refuse,
)

AREA = "redis"
_WITHIN_S = 3.0
_SLOW_S = 0.05
"""Every request takes a few round trips, every beat one."""
_FULL = 0.9


async def look_at_redis(url: str) -> list[Finding]:
    """Look at the servers themselves."""
    try:
        servers = await look_at_servers(url, within_s=_WITHIN_S)
    except StartupError as error:
        return [wrong(AREA, str(error), error.try_ or "look at --redis-url")]
    found = [one for server in servers for one in _of_server(server, url)]
    if not found:
        slowest = max(server.round_trip_s for server in servers)
        found = [fine(AREA, f"{servers[0].version}, noeviction, append-only, {_ms(slowest)} away")]
    return list(dict.fromkeys(found))


def _of_server(server: ServerFacts, url: str) -> Iterator[Finding]:
    try:
        refuse(server, parse_redis_url(url).kind)
    except StartupError as error:
        yield wrong(AREA, str(error), error.try_ or "use another server")
    if not server.keeps_log:
        yield wrong(
            AREA,
            "It keeps no append-only file: when it restarts, everybody who waits loses the place.",
            "redis-cli CONFIG SET appendonly yes, or deploy/redis/redis.conf",
        )
    elif not server.log_written:
        yield wrong(
            AREA,
            "It can't write its append-only file.",
            "free disk space or repair rights where redis-cli CONFIG GET dir points",
        )
    if server.memory_share > _FULL:
        yield wrong(
            AREA,
            f"{server.memory_share:.0%} of its memory is in use; full, it takes no new session.",
            "raise maxmemory: redis-cli INFO memory",
        )
    if server.round_trip_s > _SLOW_S:
        yield wrong(
            AREA,
            f"It is {_ms(server.round_trip_s)} away; every request takes a few such trips.",
            "put it into the same network: redis-cli --latency",
        )
    if abs(server.clock_ahead_s) > CLOCKS_AGREE_WITHIN_S:
        side = "ahead of" if server.clock_ahead_s > 0 else "behind"
        yield wrong(
            "clock",
            f"The clock of Redis is {spell(abs(server.clock_ahead_s))} {side} this machine's.",
            "switch time synchronisation on, on both: timedatectl set-ntp true",
        )


async def look_at_pool(url: str, pool: str) -> list[Finding]:
    """Look at what stands in the registry: can anybody be served?"""
    registry = Registry.connect(url)
    try:
        with refusals_told():
            names = await registry.inspection.node_ids(pool)
            facts = await registry.inspection.look(pool, nodes=sorted(names))
    except StartupError as error:
        return [wrong("registry", str(error), error.try_ or "greenroom audit")]
    except StoreUnavailable as error:
        if error.damaged:
            return [wrong("registry", str(error), "greenroom audit")]
        return []  # told by the look at the server
    finally:
        await registry.aclose()
    troubled = [
        wrong("nodes", f"{node.node_id} {'; '.join(troubles)}.", "greenroom nodes")
        for node in facts.nodes
        if node.record.get("state") != NodeState.LOADING
        and (troubles := node_troubles(node, facts.registry_ms))
    ]
    if troubled:
        return troubled
    if not facts.nodes:
        text = f"No node serves pool {pool}: whoever comes waits."
        return [note("nodes", text, "greenroom node my_world.py")]
    return [fine("nodes", f"{len(facts.nodes)} in pool {pool}")]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
