"""How does a test have an older Redis than any that is installed?

A way to a server on which its version reads as another one of the same length; all else is its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.redis_server import RedisServer

_VERSION = re.compile(rb"((?:redis|valkey)_version:)\d")
_CHUNK_BYTES = 1 << 20


@asynccontextmanager
async def aged(server: RedisServer, major: int) -> AsyncIterator[str]:
    """Yield the address where *server* says that it is of version *major*."""
    tasks: set[asyncio.Task[None]] = set()

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(_VERSION.sub(rb"\g<1>%d" % major, data) if is_reply else data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_unix_connection(server.socket_path)
        tasks.add(asyncio.create_task(pump(reader, its_writer, is_reply=False)))
        tasks.add(asyncio.create_task(pump(its_reader, writer, is_reply=True)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}/0"
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
