"""Does a peer that does nothing hold up a replica's stop?"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn

from control_plane import __main__ as replica_process
from control_plane.app import Replica
from control_plane.bounded_http import BoundedHttp
from tests.support.wait import scaled_s, wait_until

NEVER_S = 600
"""How long the server itself would wait."""
MORE_THAN_SOCKETS_HOLD = 64 * 2**20

Message = MutableMapping[str, Any]


class OneAnswer:
    """An application that answers all calls at once, and at length."""

    def __init__(self) -> None:
        self.answered = 0

    async def __call__(
        self,
        _scope: Message,
        _receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(MORE_THAN_SOCKETS_HOLD)})
        self.answered += 1


class Stopping:
    """A replica's server in this process."""

    def __init__(self, app: OneAnswer) -> None:
        config = uvicorn.Config(
            cast("Any", app),
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_keep_alive=NEVER_S,
            timeout_graceful_shutdown=NEVER_S,
        )
        parts = SimpleNamespace(
            access=SimpleNamespace(is_open=True),
            vitals=SimpleNamespace(leave=lambda: None),
            hub=SimpleNamespace(say_goodbye=lambda: None),
        )
        self.server = replica_process._Server(
            config, address="", replica=cast("Replica", parts), notice_s=0.0
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Serve while the block lasts, then see that it ends; yields the port."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            serving = asyncio.create_task(self.server.serve([listener]))
            await wait_until(lambda: self.server.started, "it serves")
            try:
                yield listener.getsockname()[1]
                self.server.should_exit = True
                await asyncio.wait_for(serving, scaled_s(30))
            finally:
                serving.cancel()


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


async def test_whoever_reads_no_answer_is_not_waited_for() -> None:
    """The call is answered as far as the replica knows, but the answer never gets away."""
    app = OneAnswer()
    with socket.socket() as deaf:
        async with Stopping(app).running() as port:
            deaf.connect(("127.0.0.1", port))
            deaf.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await wait_until(lambda: app.answered, "it's answered")


async def test_whoever_comes_in_the_moment_of_the_stop_and_says_nothing_is_not_waited_for() -> None:
    """The server has told all connections to end that it knew, and this one wasn't among them."""
    stopping = Stopping(OneAnswer())
    async with stopping.running() as port:
        close_all = stopping.server.shutdown

        async def shutdown(sockets: list[socket.socket] | None = None) -> None:
            known, stopping.server.server_state.connections = (
                stopping.server.server_state.connections,
                set(),
            )
            asyncio.get_running_loop().call_later(
                0.05, setattr, stopping.server.server_state, "connections", known
            )
            await close_all(sockets)

        stopping.server.shutdown = shutdown  # type: ignore[method-assign]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await wait_until(lambda: stopping.server.server_state.connections, "it is let in")
    writer.close()
