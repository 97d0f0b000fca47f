"""What does the child do? It runs the very host that a node without a child runs in itself.

Messages come in on a thread of their own and are done on the child's event loop, where the host is
at home; another thread says every half second that the child lives, and for how long its two loops
have stood. Whatever goes wrong in here itself ends the process: the node sees that and begins anew.

A chunk leaves as soon as it's made: its pictures are decoded here and copied once, into a slot.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np
import structlog

from gpu_node.media import decoded
from gpu_node.services.contract import Chunk
from gpu_node.services.stream import ChunkStream
from gpu_node.worker.arena import Slots
from gpu_node.worker.bring_up import ChildService
from gpu_node.worker.framing import Decoder, Message, encode
from gpu_node.worker.parcels import Parcel, pack
from gpu_node.worker.wire import ALIVE_EVERY_S, error_word, named, parcelled, value_of
from shared.errors import BadChunk, GreenroomError, InvalidConfig
from shared.lifecycle import Background, call_foreign, describe, in_thread

_log = structlog.get_logger()

_READ_BYTES = 1024 * 1024
EXIT_BROKEN = 70
_STOP_S = 5.0


class LoopWitness:
    """For how long has a loop stood? Asked by the thread that says that the child lives."""

    def __init__(self) -> None:
        self._asked_at_s: float | None = None

    def age_s(self, touch: Callable[[Callable[[], None]], None]) -> float:
        """Return it, and ask the loop again once it has answered."""
        asked_at_s = self._asked_at_s
        if asked_at_s is None:
            self._asked_at_s = time.monotonic()
            touch(self._on_turn)
            return 0.0
        return time.monotonic() - asked_at_s

    def _on_turn(self) -> None:
        self._asked_at_s = None


class Child:
    """The child's end of the pipe. Methods run on the child's loop, except where one is named."""

    def __init__(self, control: socket.socket, handover: socket.socket) -> None:
        self._control = control
        self._sending = threading.Lock()
        self._slots = Slots(handover)
        self._service = ChildService()
        self._loop = asyncio.get_running_loop()
        self._tasks = Background(self._on_crash)
        self._feeds: dict[str, Feed] = {}
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Serve until the node closes the pipe or asks for the end."""
        self._loop.set_exception_handler(self._on_loop_fault)
        threading.Thread(target=self._read, name="worker-read", daemon=True).start()
        threading.Thread(target=self._say_alive, name="worker-alive", daemon=True).start()
        await self._over

    def send(self, message: bytes) -> None:
        """Any thread: send one message; a node that is gone ends the child."""
        try:
            with self._sending:
                self._control.sendall(message)
        except OSError:
            die_with_family()

    def send_chunk(self, head: dict[str, Any], parcel: Parcel) -> None:
        """Copy a chunk's media into a slot, and tell the node."""
        head = {"say": "chunk", **head, **named(parcel)}
        if parcel.blobs:
            head["slot"], block = self._slots.lend(parcel.size_bytes)
            parcel.fill(block)
        head["dropped"] = self._slots.dropped()
        self.send(encode(head))

    def _read(self) -> None:
        """Reading thread: cut what comes into messages; the end of the pipe is the child's end."""
        decoder = Decoder()
        try:
            while data := self._control.recv(_READ_BYTES):
                for message in decoder.feed(data):
                    self._loop.call_soon_threadsafe(self._on_message, message)
        finally:
            die_with_family()

    def _say_alive(self) -> None:
        """Thread: say for how long the loops have stood."""
        own, service = LoopWitness(), LoopWitness()
        try:
            while True:
                ages = {
                    "loop_age_s": own.age_s(self._touch),
                    "service_age_s": service.age_s(self._service.touch),
                }
                self.send(encode({"say": "alive", **ages}))
                time.sleep(ALIVE_EVERY_S)
        finally:  # there's no memory left for as little as this
            die_with_family()

    def _touch(self, on_turn: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(on_turn)

    def _on_message(self, message: Message) -> None:
        head = message.head
        match head["do"]:
            case "call":
                work = self._answer(head["id"], head["method"], value_of(message))
                self._tasks.start(f"call {head['method']}", work)
            case "open":
                self._open(head["session"])
            case "free":
                self._slots.take_back(head["slot"])
            case "ask" | "needed_in" | "stop" as what:
                feed = self._feeds.get(head["session"])
                if feed is not None:
                    feed.do(what, head)
            case _:
                raise RuntimeError("a message of another release")

    async def _answer(self, call: int, method: str, arguments: Mapping[str, Any]) -> None:
        try:
            value = await self._call(method, arguments)
        except GreenroomError as error:
            if not isinstance(error, InvalidConfig):
                _log.warning("service_call_failed", method=method, exc_info=error)
            self.send(encode({"say": "answer", "id": call, "error": error_word(error)}))
        else:
            self.send(parcelled(value, say="answer", id=call))
            if method == "aclose" and not self._over.done():
                self._over.set_result(None)

    async def _call(self, method: str, arguments: Mapping[str, Any]) -> object:
        try:
            return await self._service.call(method, arguments)
        finally:
            if method == "close_session":
                feed = self._feeds.pop(arguments["pipeline_session_id"], None)
                if feed is not None:
                    await feed.aclose()

    def _open(self, session: str) -> None:
        feed = self._feeds[session] = Feed(session, self._service.chunks(session), self)
        feed.task = self.aside(f"feed {session}", feed.run())

    def aside(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *work* as a task; its crash is the end of the process."""
        return self._tasks.start(name, work)

    def _on_loop_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if "handle" in context:  # a callback of ours raised
            os._exit(EXIT_BROKEN)

    def _on_crash(self, task: str, error: BaseException) -> None:
        _log.error("worker_broken", task=task, why=describe(error))
        os._exit(EXIT_BROKEN)


class Feed:
    """One session's chunks on their way to the node."""

    def __init__(self, session: str, stream: ChunkStream, child: Child) -> None:
        self._session = session
        self._stream = stream
        self._child = child
        self._taken = 0
        """Chunks that left the stream; counted before anything else is awaited, so that a wish for
        one of them is known as late."""
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Send each chunk when it's made, and the end."""
        error: list[str] | None = None
        try:
            while True:
                chunk = await self._stream.take()
                self._taken += 1
                self._send(await _parcel(chunk))
        except StopAsyncIteration:
            pass
        except GreenroomError as fault:
            _log.warning("service_fault", exc_info=fault)
            error = error_word(fault)
        self._child.send(encode({"say": "end", "session": self._session, "error": error}))

    def _send(self, parcel: Parcel) -> None:
        head = {
            "session": self._session,
            "number": self._taken,
            "made_in_s": self._stream.last_made_in_s,
            "began_s": self._stream.last_began_s,
        }
        call_foreign(lambda: self._child.send_chunk(head, parcel), _unfit)

    def do(self, what: str, head: Mapping[str, Any]) -> None:
        """The node wants something of the stream; a wish for a chunk that was made came late."""
        if what == "stop":
            self._child.aside(f"stop {self._session}", self._stream.stop(_STOP_S))
            return
        if head["number"] != self._taken + 1:
            return
        if (waited_s := head.get("waited_s")) is not None:
            self._stream.learn(waited_s)
        if what == "ask":
            self._stream.ask()
        else:
            self._stream.needed_in(head["seconds"])

    async def aclose(self) -> None:
        """The session is closed: nothing more is sent."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


async def _parcel(chunk: Chunk) -> Parcel:
    """Return a chunk as it travels; pictures that need decoding get a thread for it."""
    if not isinstance(chunk, Mapping):
        raise BadChunk(f"A chunk must be a dict, not {type(chunk).__name__}.")

    def take_apart() -> Parcel:
        return call_foreign(lambda: pack(decoded(chunk)), _unfit)

    return take_apart() if _has_arrays(chunk) else await in_thread("worker-decode", take_apart)


def _has_arrays(chunk: Mapping[str, Any]) -> bool:
    frames = chunk.get("frames")
    if isinstance(frames, list | tuple):
        return all(isinstance(frame, np.ndarray) for frame in frames)
    return "frames_b64" not in chunk and "data" not in chunk


def _unfit(error: BaseException) -> BadChunk:
    return BadChunk(f"A chunk can't be handed over: {describe(error)}.")


def die_with_family() -> None:
    """End this process and all that it has started, at once; it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(EXIT_BROKEN)
