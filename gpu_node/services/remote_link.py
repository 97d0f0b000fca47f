"""How does a service reach a world that another server computes, and how does that fail?

By one WebSocket per session. The address stands in the operator's service file; nothing that a
user sends becomes part of it, and redirects aren't followed. Received messages wait in a short
queue, and when that is full nothing more is read, so that TCP slows the other side down; the
system's buffer is kept small, for what waits in it was made before the newest control. Opening,
silence and closing have limits. Whatever fails is told in one sentence without the address and the
token, for users see it. The address is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
except ImportError as error:
    raise ImportError(
        "it needs websockets; install it with: pip install 'greenroom[remote]'"
    ) from error

Message = str | bytes

_WAITING_MESSAGES = 2
"""Received and not yet taken; what comes after them stays in the network."""
_CLOSE_S = 2.0
_PING_S = 20.0
_MOST_WORDS = 300
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A world server, as the operator names it."""

    url: str
    token: str | None = field(default=None, repr=False)
    """Sent as ``Authorization: Bearer …``."""
    name: str = "The world server"
    connect_timeout_s: float = 10.0
    first_frame_timeout_s: float = 300.0
    """Models compile and encode before their first picture."""
    silence_timeout_s: float = 60.0
    """Between two messages, once there was a picture."""
    max_message_bytes: int = 128 * 2**20
    receive_buffer_bytes: int = 256 * 1024
    """What the system may receive ahead of the player. A film of 2 Mbit/s waits for a second in it;
    raw pictures over a long line need more."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise ValueError("the url of a world server must begin with ws://HOST or wss://HOST")

    @property
    def address(self) -> str:
        """The url without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def fault(self, words: str) -> RuntimeError:
        """Return the error that says *words* of this server, and note where it was."""
        if self.token:
            words = words.replace(self.token, "…")
        text = f"{self.name} {' '.join(words.split())[:_MOST_WORDS]}"
        _log.warning("remote_world_failed", address=self.address, why=text)
        return RuntimeError(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The other side has closed, or is gone."""

    code: int | None
    """None: the connection broke."""
    reason: str

    @property
    def words(self) -> str:
        """What happened, for a sentence that begins with the server's name."""
        if self.code is None:
            return "is gone: the connection broke in the middle of the session"
        return f"ended the session: {self.reason or f'no reason given, code {self.code}'}"


class Link:
    """An open connection."""

    def __init__(self, connection: ClientConnection, remote: Remote) -> None:
        self._connection, self._remote = connection, remote
        self._left = False

    async def send(self, message: Message) -> None:
        """Send, unless the connection is gone: whoever hears learns that."""
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(message)

    async def hear(self, limit_s: float) -> Message | Closed:
        """Return the next message; raises RuntimeError when there's none for so long."""
        try:
            async with asyncio.timeout(limit_s):
                return await self._connection.recv()
        except TimeoutError:
            raise self._remote.fault(f"said nothing for {limit_s:g} s") from None
        except ConnectionClosed as closed:
            frame = closed.rcvd
            if frame is None:
                return Closed(code=None, reason="")
            return Closed(code=frame.code, reason=frame.reason)

    async def hang_up(self) -> None:
        """Close, while somebody else still hears what was on the way."""
        await self._connection.close()

    async def leave(self, goodbye: Message | None) -> None:
        """Say *goodbye* and close, when nobody hears any more; bounded, and only once.

        What is still on the way is thrown away: the other side's answer comes behind it.
        """
        if self._left:
            return
        self._left = True
        try:
            async with asyncio.timeout(_CLOSE_S):
                if goodbye is not None:
                    await self.send(goodbye)
                await asyncio.gather(self._connection.close(), self._drain())
        except TimeoutError:
            pass
        finally:
            self._connection.transport.abort()

    async def _drain(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._connection.recv()


@contextlib.asynccontextmanager
async def connected(remote: Remote) -> AsyncIterator[Link]:
    """Open a connection for one session; raises RuntimeError when that fails."""
    connection = await _open(remote)
    system = connection.transport.get_extra_info("socket")
    system.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, remote.receive_buffer_bytes)
    link = Link(connection, remote)
    try:
        yield link
    finally:
        await link.leave(None)


async def _open(remote: Remote) -> ClientConnection:
    try:
        return await _Connect(
            remote.url,
            additional_headers={"Authorization": f"Bearer {remote.token}"}
            if remote.token
            else None,
            compression=None,  # pictures are compressed already
            proxy=None,
            open_timeout=remote.connect_timeout_s,
            close_timeout=_CLOSE_S,
            ping_interval=_PING_S,
            ping_timeout=None,  # a pong may stand behind pictures that nobody wants yet
            max_size=remote.max_message_bytes,
            max_queue=_WAITING_MESSAGES,
        )
    except InvalidStatus as refused:
        status = refused.response.status_code
        raise remote.fault(f"refused the connection with HTTP status {status}") from None
    except TimeoutError:
        limit_s = remote.connect_timeout_s
        raise remote.fault(f"didn't answer within {limit_s:g} s") from None
    except (OSError, WebSocketException) as failed:
        raise remote.fault(f"can't be reached: {_why(failed)}") from None


def _why(failed: Exception) -> str:
    """The cause without what asyncio adds to it: its texts have addresses in them."""
    if isinstance(failed, OSError) and failed.errno is not None and failed.errno > 0:
        return os.strerror(failed.errno)
    return type(failed).__name__


class _Connect(connect):
    """Connects to what the operator named and to nothing that it points to."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc
