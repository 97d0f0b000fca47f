"""The way to Redis on the event loop that replicas run on: what does a reset look like there?

uvloop has a word of its own for writing to a connection that has gone: a RuntimeError. Callers run
on a uvloop in a thread, the proxy that resets them on the test's own loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
import uvloop

from shared.errors import StoreUnavailable
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import POOL, StartRedis
from tests.support.wait import wait_until

SESSIONS = 20
RESETS = 100


@pytest_asyncio.fixture
async def proxy(start_redis: StartRedis) -> AsyncIterator[RedisProxy]:
    """A server of the test's own behind a proxy."""
    async with proxied(start_redis()) as proxy:
        yield proxy


async def on_uvloop(proxy: RedisProxy, play: Callable[[Registry], Awaitable[None]]) -> None:
    """Run *play* with a registry on the far side of *proxy*, in a thread with a uvloop."""
    url = proxy.url

    async def whole() -> None:
        async with contextlib.aclosing(Registry.connect(url)) as registry:
            await play(registry)

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(whole())

    await asyncio.to_thread(run)


async def open_sessions(registry: Registry) -> list[str]:
    """Open sessions, each with a place and an identity of its own."""
    names = [new_session_id(POOL) for _ in range(SESSIONS)]
    for number, name in enumerate(names):
        await registry.open(
            OpenRequest(
                pool=POOL,
                session_id=name,
                request=SessionRequest(identity=f"guest-{number}"),
                limits=SessionLimits(),
                queue_size=SESSIONS,
            )
        )
    return names


async def test_a_connection_that_was_reset_while_idle_is_made_anew(proxy: RedisProxy) -> None:
    """The next call is answered: that the old connection has gone is no fault of the caller's."""
    here = asyncio.get_running_loop()

    async def reset() -> None:
        proxy.reset()
        await wait_until(lambda: not proxy.connections, "the connections are gone")

    async def play(registry: Registry) -> None:
        for _ in range(20):
            await registry.ping()
            assert await registry.inspection.node_ids(POOL) == []
            assert await registry.touch([]) == {}
            gone = asyncio.run_coroutine_threadsafe(reset(), here)
            await asyncio.wrap_future(gone)

    await on_uvloop(proxy, play)


async def test_resets_in_mid_traffic_shift_nobody_s_reply(proxy: RedisProxy) -> None:
    """Each call gets its own answer or is told that there is none, whenever the reset comes."""
    enough = threading.Event()
    answered = 0

    async def play(registry: Registry) -> None:
        names = await open_sessions(registry)

        async def ask(number: int) -> None:
            nonlocal answered
            while not enough.is_set():
                with contextlib.suppress(StoreUnavailable):
                    record = await registry.read(names[number])
                    assert (record.session_id, record.position) == (names[number], number + 1)
                    request = await registry.request(names[number])
                    assert request == SessionRequest(identity=f"guest-{number}")
                    answered += 1

        await asyncio.gather(*(ask(number) for number in range(SESSIONS)))

    playing = asyncio.create_task(on_uvloop(proxy, play))
    try:
        for _ in range(RESETS):
            before = answered
            await wait_until(lambda: answered > before or playing.done(), "somebody is answered")  # noqa: B023
            proxy.reset()
    finally:
        enough.set()
    await playing
