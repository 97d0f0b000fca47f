"""The way to Redis: an answer in time or none, and nothing that can't be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from shared.errors import StoreUnavailable
from shared.store import Registry
from shared.store.connection import Connection
from shared.store.endpoints import ANSWER_WITHIN_S
from tests.support.redis_server import POOL, StartRedis
from tests.support.wait import scaled_s, wait_until

MOMENTS = 60
"""Turns of the event loop that a first call takes, and a margin; each is one to be stopped at."""


@asynccontextmanager
async def swallowing_the_first(redis_url: str) -> AsyncIterator[str]:
    """Stand before Redis; the first connection is taken and then gets no answer, ever."""
    path = redis_url.removeprefix("unix://").partition("?")[0]
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(served) == 1:
            await reader.read()
        else:
            inner, outer = await asyncio.open_unix_connection(path)
            await asyncio.gather(_carry(reader, outer), _carry(inner, writer))
        await _close(writer)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.close()
        await asyncio.gather(*served)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
    await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_a_greeting_that_is_never_answered_is_given_up(redis_url: str) -> None:
    """Else a server that vanished in that moment would be waited for until TCP gives up."""
    async with swallowing_the_first(redis_url) as url:
        registry = Registry.connect(url)
        with pytest.raises(StoreUnavailable):
            await registry.snapshot(POOL)

        async def answers() -> bool:
            with contextlib.suppress(StoreUnavailable):
                return (await registry.snapshot(POOL)).nodes == ()
            return False

        await wait_until(answers, "the next connection serves", timeout_s=10 * ANSWER_WITHIN_S)
        await registry.aclose()


async def test_an_answer_that_came_while_the_loop_was_stalled_counts(
    start_redis: StartRedis,
) -> None:
    """Nobody had time to read it, which isn't the server's fault."""
    server = start_redis()
    registry = Registry.connect(server.url)
    await registry.snapshot(POOL)
    await registry.ping()
    server.pause()
    answers = [asyncio.create_task(call) for call in (registry.snapshot(POOL), registry.ping())]
    for _ in range(20):  # turns in which both are sent
        await asyncio.sleep(0)
    server.resume()
    with server.client() as client:
        client.blpop("nothing", timeout=3 * ANSWER_WITHIN_S)  # our loop stands still meanwhile
    await asyncio.gather(*answers)
    await registry.aclose()


async def test_no_answer_is_told_in_time(start_redis: StartRedis) -> None:
    """Without a stall the limit is what it says, for scripts and for all other commands."""
    server = start_redis()
    registry = Registry.connect(server.url)
    await registry.snapshot(POOL)
    await registry.ping()
    server.pause()
    begun_s = time.monotonic()
    for call in (registry.snapshot(POOL), registry.ping()):
        with pytest.raises(StoreUnavailable):
            await call
    assert 2 * ANSWER_WITHIN_S <= time.monotonic() - begun_s < scaled_s(20 * ANSWER_WITHIN_S)
    server.resume()
    await registry.aclose()


@pytest.mark.parametrize(
    "call",
    [Connection.ping, lambda connection: connection.command(POOL, "EXISTS", "nothing")],
    ids=["ping", "command"],
)
async def test_a_call_can_be_stopped_at_any_moment(
    redis_url: str, call: Callable[[Connection], Awaitable[object]]
) -> None:
    """The task ends at the first asking, and what comes after gets its own answer."""
    connection = Connection(redis_url)

    async def for_ever() -> None:
        while True:
            await call(connection)

    for moment in range(MOMENTS):
        task = asyncio.create_task(for_ever())
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=scaled_s(2))
        assert done, f"it goes on after a cancellation at turn {moment}"
        assert await connection.command(POOL, "ECHO", "mine") == b"mine"
    await connection.aclose()


async def test_a_command_that_cannot_be_written_costs_nobody_elses(redis_url: str) -> None:
    """Half a character has no UTF-8: its caller hears so, the others get their answers."""
    connection = Connection(redis_url)
    answers = await asyncio.gather(
        connection.command(POOL, "ECHO", "before"),
        connection.command(POOL, "ECHO", "w\udcffrld"),
        connection.command(POOL, "ECHO", "after"),
        return_exceptions=True,
    )
    assert answers[0] == b"before"
    assert isinstance(answers[1], UnicodeError)
    assert answers[2] == b"after"
    await connection.aclose()
