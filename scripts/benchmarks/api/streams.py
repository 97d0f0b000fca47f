"""What do a thousand clients cost that follow their sessions, and how soon do they hear of changes?

All of them wait in one line, each on an event stream of one replica. First nothing happens for a
while; then whoever is first leaves the line, again and again, at moments that know nothing of the
replica's own rhythm. A change counts until the last of the others was told its new place.
"""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httpx

from scripts.benchmarks.api.load import address_of, cpu_of
from scripts.benchmarks.api.venue import Venue, open_venue

_SESSIONS = "/v1/stream/sessions"
_AT_ONCE = 50
_APART_S = (0.3, 1.8)
_WITHIN_S = 30.0
_PLACE = re.compile(rb'"position":(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What was found."""

    clients: int
    replica_share: float
    """Of one core, while nothing happens."""
    redis_share: float
    median_s: float
    """From a change until the last client knows its new place."""
    worst_s: float


async def measure(clients: int, seconds: float, changes: int) -> Streams:
    """Follow with so many clients: at rest for so long, then for so many changes."""
    async with (
        open_venue(QUEUE_SIZE=str(clients)) as venue,
        httpx.AsyncClient(base_url=venue.replica.url, headers=venue.headers, timeout=30) as api,
    ):
        line = [await _follow(venue, session_id) for session_id in await _line_up(api, clients)]
        await _until(lambda: all(one.place for one in line), "everybody knows a place")
        with cpu_of(venue.redis.pid) as redis, cpu_of(venue.replica.pid) as replica:
            await asyncio.sleep(seconds)
        told = []
        for _ in range(changes):
            await asyncio.sleep(random.uniform(*_APART_S))  # noqa: S311
            told.append(await _move_up(api, line))
        for one in line:
            one.close()
    return Streams(
        clients=clients,
        replica_share=replica.spent_s / replica.wall_s,
        redis_share=redis.spent_s / redis.wall_s,
        median_s=statistics.median(told),
        worst_s=max(told),
    )


async def _line_up(api: httpx.AsyncClient, clients: int) -> list[str]:
    """Let so many wait; returns their sessions in the order of the line."""
    found = []
    for number in range(clients):
        answer = await api.post(_SESSIONS, json={"identity": f"person-{number}"})
        answer.raise_for_status()
        found.append(str(answer.json()["session_id"]))
    return found


async def _follow(venue: Venue, session_id: str) -> _Stream:
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(
        lambda: _Stream(session_id, venue.headers), *address_of(venue.replica.url)
    )
    return stream


async def _move_up(api: httpx.AsyncClient, line: list[_Stream]) -> float:
    """Let the first one leave; returns the seconds until all others know."""
    first = line.pop(0)
    began_s = time.perf_counter()
    (await api.delete(f"{_SESSIONS}/{first.session_id}")).raise_for_status()
    first.close()
    await _until(
        lambda: all(one.place == place for place, one in enumerate(line, 1)), "all moved up"
    )
    return max(one.told_s for one in line) - began_s


async def _until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.perf_counter() + _WITHIN_S
    while not holds():
        if time.perf_counter() > deadline_s:
            raise TimeoutError(f"{what}: not within {_WITHIN_S:.0f} s")
        await asyncio.sleep(0.02)


class _Stream(asyncio.Protocol):
    """One client that follows its session, and knows nothing but its place."""

    def __init__(self, session_id: str, headers: dict[str, str]) -> None:
        self.session_id = session_id
        self.place = 0
        self.told_s = 0.0
        """When it was told that."""
        lines = [f"GET {_SESSIONS}/{session_id}/events HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._request = "\r\n".join([*lines, "", ""]).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if found := _PLACE.findall(data):
            self.place, self.told_s = int(found[-1]), time.perf_counter()

    def close(self) -> None:
        """Follow no longer."""
        self._transport.close()
