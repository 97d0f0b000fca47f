"""How many requests does a server answer, how long do they take, and what do they cost it?

A client that costs little itself: each connection sends its next request as soon as the answer to
the last one is whole, and reads no more of its head than status and length.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import psutil

CONNECTIONS = 32
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

MakeRequest = Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round found."""

    per_s: float
    p99_ms: float
    cpu_us: float
    """Processor time of the server's process for one request."""


class Refused(Exception):
    """An answer that the benchmark has no use for."""


def request(path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return one POST as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def play(url: str, pid: int, make_request: MakeRequest, seconds: float) -> Round:
    """Load the server at *url*, whose process is *pid*."""
    host, port, taken = *address_of(url), list[float]()
    loop, until_s = asyncio.get_running_loop(), time.perf_counter() + seconds
    with cpu_of(pid) as cpu:
        clients = []
        for _ in range(CONNECTIONS):
            _, client = await loop.create_connection(
                lambda: _Client(make_request, taken, until_s), host, port
            )
            clients.append(client)
        await asyncio.gather(*(client.done for client in clients))
    taken.sort()
    return Round(
        per_s=len(taken) / cpu.wall_s,
        p99_ms=1000 * taken[len(taken) * 99 // 100],
        cpu_us=1e6 * cpu.spent_s / len(taken),
    )


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a server on this machine."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


@dataclass(slots=True)
class Cpu:
    """Processor time of one process while a block ran; set at its end."""

    spent_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def cpu_of(pid: int) -> Iterator[Cpu]:
    """Measure the processor time of process *pid*."""
    process, cpu = psutil.Process(pid), Cpu()
    began, began_s = process.cpu_times(), time.perf_counter()
    yield cpu
    cpu.wall_s = time.perf_counter() - began_s
    ended = process.cpu_times()
    cpu.spent_s = ended.user + ended.system - began.user - began.system


class _Client(asyncio.Protocol):
    """One connection that always has one request under way."""

    def __init__(self, make_request: MakeRequest, taken: list[float], until_s: float) -> None:
        self._make_request = make_request
        self._taken = taken
        self._until_s = until_s
        self._received = bytearray()
        self._sent_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received) if head > 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        now_s = time.perf_counter()
        if self._received[9:12] != b"200":
            self._end(Refused(self._received.decode(errors="replace")[:2000]))
            return
        self._taken.append(now_s - self._sent_s)
        self._received.clear()
        if now_s < self._until_s:
            self._send()
        else:
            self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or Refused("the server closed the connection"))

    def _send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(self._make_request())

    def _end(self, fault: Exception | None) -> None:
        if self.done.done():
            return
        if fault is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(fault)
        self._transport.close()
