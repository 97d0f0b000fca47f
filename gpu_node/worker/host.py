"""How does a node use a service that lives in a child process?

`ChildHost` offers what `gpu_node.services.host.ServiceHost` offers and passes each call on: the
same host does the work in the child. One `ChildHost` is one life of one child. When that ends, by a
crash, by the kernel, or because it was stuck and this killed it, all that was under way raises
`ServiceLost`, all streams end with it, and closing a session succeeds at once, since nothing is
left of it. A new life is a new `ChildHost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from gpu_node.services.contract import Capacity, Chunk, ServiceMode, ServiceTraits
from gpu_node.worker.arena import BrokenSlot, SlotViews
from gpu_node.worker.framing import Decoder, LostPlace, Message, encode
from gpu_node.worker.output import ChildOutput
from gpu_node.worker.parcels import size_of, unpack
from gpu_node.worker.stream import ChildStream
from gpu_node.worker.watch import LOOK_EVERY_S, STUCK_AFTER_S, ChildWatch, Wanted
from gpu_node.worker.wire import error_from, parcelled, value_of
from shared.embedded.child import Child, ChildSpec, Graveyard
from shared.errors import ServiceFault, ServiceLost, ServiceStartFailed
from shared.lifecycle import Background

_log = structlog.get_logger()

_READ_BYTES = 1024 * 1024
_LEAVE_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What a child is started with."""

    path: Path
    gpu_ids: tuple[str, ...] | None
    """None: nobody chose any."""
    env: Mapping[str, str]
    log: Path
    memory_limit_bytes: int = 0
    """0: none."""
    stuck_after_s: float = STUCK_AFTER_S
    stop_within_s: float = 8.0


class ChildHost:
    """One life of one child. Every method is called on the agent's loop."""

    def __init__(self, plan: ChildPlan, on_lost: Callable[[], None] = lambda: None) -> None:
        self._plan = plan
        self._on_lost = on_lost
        """Called when the child is gone, before anybody who waits for it hears of that."""
        self._graveyard = Graveyard()
        self._output = ChildOutput()
        self._child: Child | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._handover: socket.socket | None = None
        self._slots: SlotViews | None = None
        self._tasks = Background()
        self._watch = ChildWatch(stuck_after_s=plan.stuck_after_s)
        self._numbers = itertools.count(1)
        self._calls: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._streams: dict[str, ChildStream] = {}
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._why_killed: str | None = None
        self._serves = False
        self.traits = ServiceTraits()
        """What the service declares of itself; the defaults before it's started."""

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        return self._plan.path.name

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._child.pid if self._child is not None and not self._lost.done() else None

    @property
    def last_lines(self) -> tuple[str, ...]:
        """What the child printed last."""
        return tuple(self._child.tail) if self._child is not None else ()

    def with_last_lines(self, sentence: str) -> str:
        """Return *sentence* with what the child printed last."""
        lines = self.last_lines
        return f"{sentence} Its last lines:\n" + "\n".join(lines) if lines else sentence

    async def lost(self) -> str:
        """Return why, once the child is gone with all its sessions."""
        return await asyncio.shield(self._lost)

    async def start(self) -> None:
        """Start the child, load and start the service there; raises `ServiceLoadFailed`."""
        await self._spawn()
        gpus = self._plan.gpu_ids
        try:
            answer = await self._call(
                "start",
                path=str(self._plan.path),
                gpu_num=len(gpus or [""]),
                gpu_ids=None if gpus is None else list(gpus),
                memory_limit_bytes=self._plan.memory_limit_bytes,
            )
        except ServiceLost as loss:
            raise ServiceStartFailed(self.with_last_lines(str(loss))) from loss
        self.traits = ServiceTraits(**{**answer, "mode": ServiceMode(answer["mode"])})
        self._watch.start_timeout_s = self.traits.start_timeout_s

    def serve(self) -> None:
        """The service has come up: from now on it must stay quick."""
        self._serves = True

    async def capacity(self, wanted: int | None) -> Capacity:
        """See `ServiceHost.capacity`."""
        return Capacity(**await self._call("capacity", wanted=wanted))

    async def create_session(self, config: dict[str, Any]) -> str:
        """See `ServiceHost.create_session`."""
        created: str = await self._call("create_session", config=config)
        return created

    async def push(self, pipeline_session_id: str, chunk: Chunk) -> None:
        """Hand one control message to the service; a late one goes nowhere."""
        if not self._lost.done():
            await self._call("push", pipeline_session_id=pipeline_session_id, chunk=chunk)

    def chunks(self, pipeline_session_id: str) -> ChildStream:
        """Return the session's chunks, once per session; the service begins at once."""
        stream = ChildStream(self._post, pipeline_session_id)
        if self._lost.done():
            stream.on_end(self._loss())
        else:
            self._streams[pipeline_session_id] = stream
            self._post("open", session=pipeline_session_id)
        return stream

    async def close_session(self, pipeline_session_id: str) -> None:
        """Return when nothing is left of the pipeline session: confirmed, or dead with its
        process.
        """
        with contextlib.suppress(ServiceLost):
            await self._call("close_session", pipeline_session_id=pipeline_session_id)
        stream = self._streams.pop(pipeline_session_id, None)
        if stream is not None:
            stream.on_end(None)

    async def runtime_metrics(self, pipeline_session_id: str | None = None) -> dict[str, Any]:
        """See `ServiceHost.runtime_metrics`; empty without a child."""
        with contextlib.suppress(ServiceLost):
            measured: dict[str, Any] = await self._call(
                "runtime_metrics", pipeline_session_id=pipeline_session_id
            )
            return measured
        return {}

    async def track_frames(self, pipeline_session_id: str) -> bool:
        """See `ServiceHost.track_frames`."""
        with contextlib.suppress(ServiceLost):
            return bool(await self._call("track_frames", pipeline_session_id=pipeline_session_id))
        return False

    async def report_frames(
        self,
        pipeline_session_id: str,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_s: float,
    ) -> bool:
        """See `ServiceHost.report_frames`; the two processes share the monotonic clock."""
        with contextlib.suppress(ServiceLost):
            return bool(
                await self._call(
                    "report_frames",
                    pipeline_session_id=pipeline_session_id,
                    event=event,
                    frames_delta=frames_delta,
                    sequence=sequence,
                    observed_s=observed_s,
                )
            )
        return False

    async def aclose(self) -> None:
        """Stop the service and end the child, if need be by force."""
        if self._child is not None and not self._lost.done():
            self._why_killed = self._why_killed or "the node had no use for it any more"
            if self._writer is not None:
                await self._ask_to_leave()
            self._child.signal(signal.SIGKILL)
            await self.lost()
        await self._tasks.aclose()
        await self._graveyard.aclose()
        self._streams.clear()
        self._slots = None

    def end_now(self) -> None:
        """End the child without asking it any longer."""
        self._kill("the node couldn't wait for it any longer")

    async def _ask_to_leave(self) -> None:
        with contextlib.suppress(ServiceFault, TimeoutError):
            async with asyncio.timeout(self._plan.stop_within_s):
                await self._call("aclose")
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await self.lost()

    # --- the process ----------------------------------------------------------------------------

    async def _spawn(self) -> None:
        with contextlib.ExitStack() as mine:
            control, its_control = socket.socketpair()
            handover, its_handover = socket.socketpair(type=socket.SOCK_SEQPACKET)
            mine.enter_context(control)
            mine.enter_context(handover)
            with its_control, its_handover:
                await self._graveyard.open()
                child = await self._start_process(its_control.fileno(), its_handover.fileno())
            mine.pop_all()  # whatever comes next, the end of the child closes them
        self._child, self._handover = child, handover
        self._slots = SlotViews(handover, self._on_slot_unused)
        self._tasks.start("worker exit", self._await_exit(child))
        reader, self._writer = await asyncio.open_connection(sock=control)
        _log.info("worker_started", pid=child.pid)
        self._tasks.start("worker messages", self._read(reader))
        self._tasks.start("worker watch", self._look_after())

    async def _start_process(self, *passed: int) -> Child:
        spec = ChildSpec(
            name="worker",
            argv=(sys.executable, "-m", "gpu_node.worker", *map(str, passed)),
            env=self._plan.env,
            ready=_at_once,
            shown=True,
            pass_fds=passed,
        )
        child = Child(spec, log=self._plan.log, graveyard=self._graveyard, show=self._output.show)
        await child.spawn()
        return child

    async def _await_exit(self, child: Child) -> None:
        pid = child.pid
        status = await child.wait()
        why = self._why_killed or _ending(status)
        if self._why_killed is None:
            _log.warning("worker_died", pid=pid, why=why)
        if self._writer is not None:
            self._writer.close()
        if self._handover is not None:
            self._handover.close()
        self._on_lost()
        self._lost.set_result(why)
        for _, answer in self._calls.values():
            if not answer.done():
                answer.set_exception(self._loss())
        self._calls.clear()
        for stream in self._streams.values():
            stream.on_end(self._loss())

    async def _look_after(self) -> None:
        while not self._lost.done():
            await asyncio.sleep(LOOK_EVERY_S)
            stuck = self._watch.look(self._wanted())
            if stuck is not None and self._why_killed is None:
                _log.error("worker_stuck", pid=self.pid, why=stuck)
                self._kill(f"stuck: {stuck}")

    def _wanted(self) -> Wanted:
        methods = {method for method, _ in self._calls.values()}
        waits = [stream for stream in self._streams.values() if stream.is_wanted]
        return Wanted(
            anything=bool(methods or waits),
            is_coming_up=not self._serves,
            is_beginning="create_session" in methods
            or any(not stream.has_begun for stream in waits),
        )

    def _kill(self, why: str) -> None:
        if self._child is not None and not self._lost.done():
            self._why_killed = self._why_killed or why
            self._child.signal(signal.SIGKILL)

    def _loss(self) -> ServiceLost:
        return ServiceLost(f"The process of the service has died ({self._lost.result()}).")

    # --- messages -------------------------------------------------------------------------------

    async def _call(self, method: str, **arguments: Any) -> Any:
        if self._lost.done():
            raise self._loss()
        if self._writer is None:
            raise RuntimeError(f"{method}() before the child was started")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = (method, answer)
        try:
            self._writer.write(parcelled(arguments, do="call", id=number, method=method))
            with contextlib.suppress(ConnectionError):  # then its end is noticed in a moment
                await self._writer.drain()
            return await answer
        finally:
            self._calls.pop(number, None)

    def _post(self, what: str, **fields: Any) -> None:
        if self._writer is not None and not self._lost.done():
            self._writer.write(encode({"do": what, **fields}))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take messages until the pipe ends; what can't be understood ends the child."""
        decoder = Decoder()
        try:
            while data := await reader.read(_READ_BYTES):
                for message in decoder.feed(data):
                    self._on_message(message)
        except ConnectionError:
            pass
        except (LostPlace, BrokenSlot, KeyError, ValueError) as fault:
            _log.error("worker_not_understood", why=str(fault), exc_info=fault)
            self._kill("what it said made no sense")
        await asyncio.wait({self._lost}, timeout=_LEAVE_WITHIN_S)  # how it died says more
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    def _on_message(self, message: Message) -> None:
        head = message.head
        match head["say"]:
            case "alive":
                self._watch.hear(loop_age_s=max(head["loop_age_s"], head["service_age_s"]))
                return
            case "answer":
                self._on_answer(message)
            case "chunk":
                self._on_chunk(message)
            case "end":
                stream = self._streams.get(head["session"])
                if stream is not None:
                    stream.on_end(error_from(head["error"]) if head["error"] else None)
            case unknown:
                raise ValueError(f"a message called {unknown!r}")
        self._watch.hear()

    def _on_answer(self, message: Message) -> None:
        _, answer = self._calls.get(message.head["id"], ("", None))
        if answer is None or answer.done():
            return
        if "error" in message.head:
            answer.set_exception(error_from(message.head["error"]))
        else:
            answer.set_result(value_of(message))

    def _on_chunk(self, message: Message) -> None:
        head = message.head
        if self._slots is None:
            return
        self._slots.drop(head["dropped"])
        chunk = head["plain"]
        if "slot" in head:
            block = self._slots.view(head["slot"], size_of(head["table"]))
            chunk = unpack(chunk, head["table"], block)
        stream = self._streams.get(head["session"])
        if stream is not None:
            stream.on_chunk(chunk, head["made_in_s"], head["began_s"])

    def _on_slot_unused(self, number: int) -> None:
        """Any thread: the last array that showed this slot is gone."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so is the child
            self._loop.call_soon_threadsafe(lambda: self._post("free", slot=number))


async def _at_once() -> bool:
    return True


def _ending(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"it ended by itself with exit status {status}"
