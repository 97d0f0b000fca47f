"""How do many callers share one connection?

Commands of one tick of the event loop are written together and answered in order, which costs a
fraction of a pool's take-and-return per call. Three promises:

- A caller that gives up only drops its future; the connection and everybody else's replies stay in
  step.
- When the connection is lost, each command in flight is sent once more on the next one, in the old
  order. So only commands that may safely run twice belong here; all scripts may.
- A server that accepts commands and answers none is left after `silence_s`; so is a second loss.

redis-py makes the connection (address, TLS, password, Sentinel), this module only drives it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import redis.exceptions
import structlog
from redis.asyncio.connection import AbstractConnection

from shared.store.patience import awake_timeout

_log = structlog.get_logger()

_SENDINGS = 2
_LOOKS = 4
_BACKOFF_S = (0.01, 0.05, 0.1, 0.25, 0.5)
Command = Sequence[str | bytes | int]


@dataclass(slots=True, eq=False)
class _Call:
    """One command on its way. Touched by the event loop only."""

    command: Command
    reply: asyncio.Future[Any]
    sendings: int = 0


class Multiplexer:
    """One connection for all callers of this event loop; made at the first command."""

    def __init__(
        self, make_connection: Callable[[], AbstractConnection], *, silence_s: float = 2.0
    ) -> None:
        self._make_connection = make_connection
        self._silence_s = silence_s
        self._waiting: deque[_Call] = deque()
        """Not written yet, or to be written again."""
        self._in_flight: deque[_Call] = deque()
        """Written, in the order in which the replies will come."""
        self._wake = asyncio.Event()
        self._driver: asyncio.Task[None] | None = None
        self._closed = False
        self._losses = 0
        """Connections lost in a row, none of which answered anything."""
        self._is_told_lost = False
        self._is_left = False
        self.fault: Exception | None = None
        """Why there is no connection, while there is none."""

    def send(self, command: Command) -> asyncio.Future[Any]:
        """Queue *command* for this tick's write and return the future of its reply.

        The future raises what the server answers as an error (`redis.exceptions.ResponseError`) and
        `redis.exceptions.ConnectionError` if the command may not have run, or ran twice in vain.
        """
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            reply.set_exception(redis.exceptions.ConnectionError("closed"))
            return reply
        self._waiting.append(_Call(command, reply))
        self._wake.set()
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive(), name="redis-multiplexer")
        return reply

    def leave(self) -> None:
        """Take another connection soon; what is in flight is sent again there."""
        self._is_left = True

    async def aclose(self) -> None:
        """Close the connection; what is still waiting fails. Harmless when done twice."""
        self._closed = True
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.gather(self._driver, return_exceptions=True)
        for calls in (self._in_flight, self._waiting):
            _fail(calls, redis.exceptions.ConnectionError("closed"))

    async def _drive(self) -> None:
        """Keep one connection while there is work; only this task touches the connection."""
        while not self._closed:
            connection = self._make_connection()
            try:
                async with awake_timeout(self._silence_s):  # its greeting may stay unanswered
                    await connection.connect()  # type: ignore[no-untyped-call]
                await self._serve(connection)
            except (redis.exceptions.RedisError, OSError, TimeoutError) as fault:
                self._after_loss(fault)
            finally:
                # Whatever ended this connection: the next one won't bring its replies.
                _fail(self._in_flight, redis.exceptions.ConnectionError("connection lost"))
                with contextlib.suppress(redis.exceptions.RedisError, OSError):
                    await connection.disconnect(nowait=True)
            await asyncio.sleep(_BACKOFF_S[min(self._losses, len(_BACKOFF_S)) - 1])
            if not self._waiting:
                await self._wake.wait()

    async def _serve(self, connection: AbstractConnection) -> None:
        """Write and read until one of the two fails."""
        reader = asyncio.create_task(self._read(connection), name="redis-reader")
        writer = asyncio.create_task(self._write(connection), name="redis-writer")
        watch = asyncio.create_task(self._watch_silence(), name="redis-silence")
        tasks = (reader, writer, watch)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            packed: list[bytes] = []
            while self._waiting:
                call = self._waiting.popleft()
                if call.reply.done():  # the caller gave up before it was written
                    continue
                try:
                    parts = connection.pack_command(*call.command)
                except (redis.exceptions.DataError, UnicodeError) as unwritable:
                    call.reply.set_exception(unwritable)  # nobody else's command suffers for it
                    continue
                call.sendings += 1
                self._in_flight.append(call)
                packed.extend(parts)
            if packed:
                await connection.send_packed_command(b"".join(packed), check_health=False)

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            try:
                reply = await connection.read_response(disconnect_on_error=False)
            except redis.exceptions.ResponseError as refused:
                call = self._in_flight.popleft()
                if not call.reply.done():
                    call.reply.set_exception(refused)
                continue
            call = self._in_flight.popleft()
            if not call.reply.done():
                call.reply.set_result(reply)
            self._losses, self.fault = 0, None
            if self._is_told_lost:
                self._is_told_lost = False
                _log.info("redis_connection_back")

    async def _watch_silence(self) -> None:
        """A black hole looks like a slow server; after `silence_s` without a reply it is left."""
        self._is_left = False
        oldest, looks = None, 0
        while not self._is_left:
            await asyncio.sleep(self._silence_s / _LOOKS)
            # Looks are counted, not seconds: after a stall of ours the reply may be there, unread.
            looks = looks + 1 if self._in_flight and self._in_flight[0] is oldest else 0
            oldest = self._in_flight[0] if self._in_flight else None
            if looks == _LOOKS:
                raise redis.exceptions.ConnectionError("no reply")
        raise redis.exceptions.ConnectionError("left")

    def _after_loss(self, fault: Exception) -> None:
        """Put commands in flight back in front, in their order; give up those sent twice."""
        self._losses += 1
        self.fault = fault
        again = deque(call for call in self._in_flight if not call.reply.done())
        self._in_flight.clear()
        if not again and not self._waiting:
            return
        if not self._is_told_lost:
            self._is_told_lost = True
            _log.info("redis_connection_lost", commands=len(again), why=type(fault).__name__)
        lost = redis.exceptions.ConnectionError("connection lost")
        for call in again:
            if call.sendings >= _SENDINGS:
                call.reply.set_exception(lost)
        self._waiting.extendleft(call for call in reversed(again) if not call.reply.done())
        # Nobody waits for ever for a server that is away: whoever gave up is dropped here.
        self._waiting = deque(call for call in self._waiting if not call.reply.done())
        if self._waiting:
            self._wake.set()


def _fail(calls: deque[_Call], fault: Exception) -> None:
    """Tell all who wait for these, and forget them."""
    for call in calls:
        if not call.reply.done():
            call.reply.set_exception(fault)
    calls.clear()
