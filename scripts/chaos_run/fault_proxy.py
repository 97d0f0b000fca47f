"""How does one process's way to Redis break?

A TCP proxy per process, between it and Redis. It knows where a command begins and ends, and which
connection carries beats; of replies it only knows that some came. At most one fault is on at a
time, for all connections, those that are made meanwhile included. When it ends, connections that
have lost something are reset: that's how the process learns of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable

from scripts.chaos_run.schedule import Kind

_CHUNK_BYTES = 65536
_LATE_S = (0.1, 1.5)
_COPY_LATE_S = (0.0, 5.0)
_SWALLOWS = (Kind.BLACK_HOLE, Kind.DEAF)
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close sends a reset."""


def split_commands(data: bytes) -> tuple[list[bytes], bytes]:
    """Split what a client sent into complete commands (raw) and the beginning of the next one."""
    commands, start = [], 0
    while (end := _end_of_command(data, start)) is not None:
        commands.append(data[start:end])
        start = end
    return commands, data[start:]


def _end_of_command(data: bytes, at: int) -> int | None:
    """Return where the array of bulk strings that starts at *at* ends, None if it isn't there."""
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    if data[at : at + 1] != b"*":
        return line + 2  # an inline command
    parts, at = int(data[at + 1 : line]), line + 2
    for _ in range(parts):
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        at = line + 2 + int(data[at + 1 : line]) + 2
    return at if at <= len(data) else None


def is_script(command: bytes) -> bool:
    """Tell whether a command runs a script; only those may be repeated."""
    return b"\r\nEVAL" in command[:24].upper()


class FaultProxy:
    """One process's way to Redis."""

    def __init__(
        self, *, port: int, redis_port: int, seed: str, is_beat: Callable[[bytes], bool]
    ) -> None:
        self.port = port
        self.redis_port = redis_port
        self.is_beat = is_beat
        self.chance = random.Random(seed)  # noqa: S311 - it must repeat
        self.fault: Kind | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._copies: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def copies_on_their_way(self) -> int:
        """Calls that will be done a second time."""
        return len(self._copies)

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def begin(self, fault: Kind) -> None:
        """Let *fault* happen from now on."""
        self.fault = fault
        if fault is Kind.CUT:
            for link in self._links:
                link.reset()

    def heal(self) -> None:
        """Let everything through again."""
        self.fault = None
        for link in self._links:
            if link.has_lost:
                link.reset()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.reset()
        tasks = [*self._tasks, *self._copies]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    def double(self, command: bytes) -> None:
        """Have *command* done again, some time later, on a connection of its own."""
        after_s = self.chance.uniform(*_COPY_LATE_S)
        task = asyncio.create_task(_send_once(self.redis_port, command, after_s))
        self._copies.add(task)
        task.add_done_callback(self._copies.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        link = _Link(self, writer)
        self._links.add(link)
        try:
            if self.fault is not Kind.CUT:
                await link.run(reader)
        except (OSError, EOFError, asyncio.CancelledError):
            return
        finally:
            self._links.discard(link)
            link.reset()


class _Link:
    """One connection of the process, and the one to Redis that belongs to it."""

    def __init__(self, proxy: FaultProxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._redis: asyncio.StreamWriter | None = None
        self._commands: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._drops_next_reply = False
        self._carries_beats = False
        self.has_lost = False
        """Something was swallowed, so its replies are out of step: it must be reset."""

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Carry both ways until one side closes; what was sent by then still arrives."""
        redis_reader, self._redis = await asyncio.open_connection(
            "127.0.0.1", self._proxy.redis_port
        )
        sending = asyncio.create_task(self._send())
        answering = asyncio.create_task(self._answer(redis_reader))
        rest = b""
        try:
            while data := await self._read(reader, answering):
                commands, rest = split_commands(rest + data)
                for command in commands:
                    self._commands.put_nowait(command)
            self._commands.put_nowait(None)
            await sending
        finally:
            sending.cancel()
            answering.cancel()
            self._redis.transport.abort()
            await asyncio.gather(sending, answering, return_exceptions=True)

    def reset(self) -> None:
        """End the process's connection without a goodbye."""
        sock = self._client.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._client.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, answering: asyncio.Task[None]) -> bytes:
        """Return what the process sends next; nothing if either side has closed."""
        reading = asyncio.ensure_future(reader.read(_CHUNK_BYTES))
        done, _ = await asyncio.wait({reading, answering}, return_when=asyncio.FIRST_COMPLETED)
        if reading in done:
            try:
                return reading.result()
            except OSError:
                return b""
        reading.cancel()
        return b""

    async def _send(self) -> None:
        """Pass commands on in their order, as the fault of the moment wants it."""
        if self._redis is None:
            return
        while (command := await self._commands.get()) is not None:
            self._carries_beats = self._carries_beats or self._proxy.is_beat(command)
            fault, chance = self._proxy.fault, self._proxy.chance
            if fault is Kind.BLACK_HOLE or (fault is Kind.DEAF and not self._carries_beats):
                self.has_lost = True
                continue
            if fault is Kind.DELAY and chance.random() < 0.5:
                await asyncio.sleep(chance.uniform(*_LATE_S))
            if fault is Kind.DOUBLE and is_script(command):
                self._proxy.double(command)
            self._drops_next_reply = fault is Kind.DROP_REPLIES and chance.random() < 0.5
            self._redis.write(command)
            await self._redis.drain()

    async def _answer(self, redis_reader: asyncio.StreamReader) -> None:
        while data := await redis_reader.read(_CHUNK_BYTES):
            fault, chance = self._proxy.fault, self._proxy.chance
            if self._drops_next_reply:
                self.reset()
                return
            if fault in _SWALLOWS and not (fault is Kind.DEAF and self._carries_beats):
                self.has_lost = True
                continue
            if fault is Kind.DELAY and chance.random() < 0.5:
                await asyncio.sleep(chance.uniform(*_LATE_S))
            self._client.write(data)
            await self._client.drain()


async def _send_once(redis_port: int, command: bytes, after_s: float) -> None:
    """Run a command on a connection of its own; nobody looks at the reply."""
    await asyncio.sleep(after_s)
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", redis_port)
        try:
            writer.write(command)
            await reader.read(1)
        finally:
            writer.transport.abort()
