"""How long does a scrape take while there are ten thousand sessions?

Half of them are with a hundred nodes, the others wait. Scrapes are further apart than a replica
keeps what it saw, so each one looks anew.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

import httpx

from scripts.benchmarks.api.venue import Venue, open_venue
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from shared.waiting import IdentityLimits
from tests.support.redis_server import POOL

_NODES = 100
_AT_ONCE = 50
_APART_S = 1.1
_LIMITS = SessionLimits(queued_s=36_000, assigned_s=36_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What was found."""

    sessions: int
    nodes: int
    kib: float
    median_ms: float
    worst_ms: float


async def measure(sessions: int, scrapes: int) -> Scrape:
    """Scrape so often while there are so many sessions."""
    async with open_venue() as venue:
        for _ in range(_NODES):
            await venue.begin_node(sessions // 2 // _NODES)
        await _fill(venue, sessions)
        took, size = [], 0
        async with httpx.AsyncClient(base_url=venue.replica.url, headers=venue.headers) as api:
            await api.get("/metrics")
            for _ in range(scrapes):
                await asyncio.sleep(_APART_S)
                began_s = time.perf_counter()
                answer = await api.get("/metrics")
                took.append(1000 * (time.perf_counter() - began_s))
                answer.raise_for_status()
                size = len(answer.content)
    return Scrape(
        sessions=sessions,
        nodes=_NODES,
        kib=size / 1024,
        median_ms=statistics.median(took),
        worst_ms=max(took),
    )


async def _fill(venue: Venue, sessions: int) -> None:
    registry = Registry.connect(venue.redis.url)
    names = iter(range(sessions))

    async def open_some() -> None:
        for number in names:
            await registry.open(
                OpenRequest(
                    pool=POOL,
                    session_id=f"{POOL}-{_letters(number)}",
                    request=SessionRequest(identity=f"person-{number}", config={}),
                    limits=_LIMITS,
                    queue_size=sessions,
                    identity_limits=IdentityLimits(waiting=0, active=0),
                )
            )

    try:
        await asyncio.gather(*(open_some() for _ in range(_AT_ONCE)))
    finally:
        await registry.aclose()


def _letters(number: int) -> str:
    return f"{number:026d}".translate(str.maketrans("0123456789", "abcdefghij"))
