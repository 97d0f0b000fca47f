"""How does a test stand between a caller and Redis, to be slow or to lose replies?

One TCP proxy before one server. It knows where a command begins and ends. A reply that it loses
belongs to a command that has run: the connection is reset when the reply comes. Replies that it
delays are cut into pieces, so that they arrive half.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scripts.chaos_run.fault_proxy import split_commands
from tests.support.redis_server import RedisServer

_CHUNK_BYTES = 65536
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close sends a reset."""


class RedisProxy:
    """The way to one server; a test sets how it behaves."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[_Link] = set()
        self.loses_reply_of: Callable[[bytes], bool] = lambda _command: False
        self.delay_s: Callable[[], float] = lambda: 0.0
        """Before each of the two pieces of a reply; 0: whole and at once."""
        self.lost = 0

    @property
    def url(self) -> str:
        """Where to connect to."""
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def connections(self) -> int:
        """How many callers' connections there are."""
        return len(self._links)

    def reset(self) -> None:
        """End all connections without a goodbye; new ones may be made."""
        for link in self._links:
            link.reset()

    async def aclose(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            redis_reader, redis_writer = await asyncio.open_unix_connection(self._socket_path)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        link = _Link(self, writer, redis_writer)
        self._links.add(link)
        ways = [
            asyncio.create_task(link.carry_commands(reader)),
            asyncio.create_task(link.carry_replies(redis_reader)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        link.reset()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        self._links.discard(link)


class _Link:
    """One connection of a caller, and the one to Redis that belongs to it."""

    def __init__(
        self, proxy: RedisProxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._loses_next = False

    async def carry_commands(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while data := await reader.read(_CHUNK_BYTES):
            commands, rest = split_commands(rest + data)
            for command in commands:
                self._loses_next = self._loses_next or self._proxy.loses_reply_of(command)
                self._server.write(command)
            await self._server.drain()

    async def carry_replies(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if self._loses_next:
                self._proxy.lost += 1
                return
            cut = random.randrange(len(data)) if self._proxy.delay_s() else 0
            for piece in (data[:cut], data[cut:]):
                await asyncio.sleep(self._proxy.delay_s())
                self._client.write(piece)
                await self._client.drain()

    def reset(self) -> None:
        """End both connections without a goodbye to the caller."""
        if (sock := self._client.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._client.transport.abort()
        self._server.transport.abort()


@asynccontextmanager
async def proxied(server: RedisServer) -> AsyncIterator[RedisProxy]:
    """Stand before *server* while the block lasts."""
    proxy = RedisProxy(server.socket_path)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.aclose()
