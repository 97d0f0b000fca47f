"""Is a server that we started ready?

Two questions in the servers' own words, over a fresh connection each, without a client library:
a probe runs every few milliseconds while a server starts, and must never keep state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_LIMIT_S = 2.0


def http_ok(port: int, path: str, *, host: str = "127.0.0.1") -> Callable[[], Awaitable[bool]]:
    """Return a probe that is True when ``GET path`` answers 200."""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"

    async def ask() -> bool:
        answer = await _exchange(host, port, request.encode())
        return answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 "))

    return ask


def redis_pong(port: int) -> Callable[[], Awaitable[bool]]:
    """Return a probe that is True when ``PING`` is answered; False while data is being loaded."""

    async def ask() -> bool:
        return (await _exchange("127.0.0.1", port, b"PING\r\n")).startswith(b"+PONG")

    return ask


async def _exchange(host: str, port: int, request: bytes) -> bytes:
    """Return the first line of the answer; empty if there is none."""
    try:
        async with asyncio.timeout(_LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return b""
