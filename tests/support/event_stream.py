"""How does a test follow a session's events, in this process and without a socket?

It calls the replica as the HTTP server does. What comes is read event by event; leaving the block
is a client that closes its connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message

from tests.support.replica import SESSIONS
from tests.support.wait import scaled_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event, or a comment or hint (then ``event`` is empty)."""

    event: str
    id: int | None = None
    name: str = ""
    """The id, where it is no number."""
    data: dict[str, object] = field(default_factory=dict)
    retry_ms: int | None = None


class Stream:
    """One client's event stream."""

    def __init__(
        self, app: ASGIApp, path: str, last_id: int | str | None, credential: str = ""
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._app = app
        self._path = path
        self._last_id = last_id
        self._credential = credential
        self._blocks: asyncio.Queue[str | None] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._left = asyncio.Event()
        self._unread = ""
        self._asked = False
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Send the request and wait for the answer's head."""
        headers = [(b"host", b"127.0.0.1:8088"), (b"accept", b"text/event-stream")]
        if self._last_id is not None:
            headers.append((b"last-event-id", str(self._last_id).encode()))
        if self._credential:
            headers.append((b"authorization", f"Bearer {self._credential}".encode()))
        path, _, query = self._path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8088),
        }
        self.task = asyncio.create_task(self._app(scope, self._receive, self._send))  # type: ignore[arg-type]
        async with asyncio.timeout(scaled_s(5)):
            await self._begun.wait()

    async def next(self, timeout_s: float = 5.0) -> Told:
        """Return the next event or hint; comments are passed over."""
        while True:
            async with asyncio.timeout(scaled_s(timeout_s)):
                block = await self._blocks.get()
            assert block is not None, "the stream has ended"
            if not block.startswith(":"):
                return _parsed(block)

    async def event(self, name: str, timeout_s: float = 5.0) -> Told:
        """Return the next event, which must be called *name*; hints are passed over."""
        told = await self.next(timeout_s)
        while not told.event:
            told = await self.next(timeout_s)
        assert told.event == name, told
        return told

    async def comment(self, timeout_s: float = 5.0) -> str:
        """Return the next comment; it must come before any event."""
        async with asyncio.timeout(scaled_s(timeout_s)):
            block = await self._blocks.get()
        assert block is not None
        assert block.startswith(":"), block
        return block

    async def ended(self, timeout_s: float = 5.0) -> None:
        """Wait for the end of the stream; nothing may come before it."""
        async with asyncio.timeout(scaled_s(timeout_s)):
            block = await self._blocks.get()
        assert block is None, block

    def unread(self) -> list[Told]:
        """Return the events that have come and weren't read yet."""
        blocks = []
        while not self._blocks.empty():
            block = self._blocks.get_nowait()
            if block is not None and not block.startswith(":"):
                blocks.append(_parsed(block))
        return blocks

    async def leave(self) -> None:
        """Close the connection and wait until the replica has let go of it."""
        self._left.set()
        if self.task is not None:
            async with asyncio.timeout(scaled_s(5)):
                await self.task

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._begun.set()
            return
        self._unread += message.get("body", b"").decode()
        *blocks, self._unread = self._unread.split("\n\n")
        for block in blocks:
            self._blocks.put_nowait(block)
        if not message.get("more_body", False):
            self._blocks.put_nowait(None)


def _parsed(block: str) -> Told:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    number = fields.get("id", "")
    return Told(
        event=fields.get("event", ""),
        id=int(number) if number.isdigit() else None,
        name=number,
        data=json.loads(fields.get("data", "{}")),
        retry_ms=int(fields["retry"]) if "retry" in fields else None,
    )


@asynccontextmanager
async def following(
    app: ASGIApp, session_id: str, last_id: int | None = None, *, credential: str = ""
) -> AsyncIterator[Stream]:
    """Follow a session for the length of the block."""
    path = f"{SESSIONS}/{session_id}/events"
    async with streaming(app, path, last_id, credential=credential) as stream:
        yield stream


@asynccontextmanager
async def streaming(
    app: ASGIApp, path: str, last_id: int | str | None = None, *, credential: str = ""
) -> AsyncIterator[Stream]:
    """Read any of the API's streams for the length of the block."""
    stream = Stream(app, path, last_id, credential)
    await stream.begin()
    try:
        yield stream
    finally:
        await stream.leave()
