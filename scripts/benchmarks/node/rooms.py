"""What does a room cost, beside the SDK alone, and how soon does a key reach the picture?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from livekit import rtc

from scripts.benchmarks.node import bench_service
from shared.embedded.ports import free_port
from shared.ids import WorkerIdentity, new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason
from shared.store import Registry
from tests.livekit.conftest import tokens_for
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer
from tests.support.node_process import NodeProcess
from tests.support.redis_server import POOL
from tests.support.wait import wait_until

RAW, IN_PROCESS, PROCESS = "raw SDK", "in-process", "process"
SETTLE_S, LONG_S = 2.0, 120.0
PRESSES = 15
_RAW_WORKER = WorkerIdentity(node_id="raw", epoch=1, attempt=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a number of rooms cost."""

    way: str
    rooms: int
    frames_per_s: float
    """Of one room."""
    cores: float
    """Of one room: share of one core, children included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """From a key to the first picture that shows it."""

    way: str
    median_ms: float
    worst_ms: float


class Stage:
    """The media server and the registry of a benchmark."""

    def __init__(self, server: LiveKitServer, redis_url: str, registry: Registry) -> None:
        self.server, self._redis_url, self._registry = server, redis_url, registry
        self.tokens = tokens_for(server)

    async def load(self, way: str, rooms: int, seconds: float) -> Load:
        """Play *rooms* at once and measure for *seconds*."""
        sessions = [new_session_id(POOL) for _ in range(rooms)]
        async with self._audience(sessions):
            if way == RAW:
                async with self._raw(sessions, seconds) as process:
                    cost = json.loads(await _line(process))
                    frames_per_s, cores = cost["frames_per_s"], cost["cores"]
            else:
                async with self._node(way, sessions) as (pid, port):
                    await wait_until(
                        lambda: _frames(port) > bench_service.FPS * rooms,
                        "all rooms play",
                        timeout_s=LONG_S,
                    )
                    frames_per_s, cores = await _measured(pid, port, seconds)
        return Load(way=way, rooms=rooms, frames_per_s=frames_per_s / rooms, cores=cores / rooms)

    async def idle(self, seconds: float) -> float:
        """Return the share of a core that a node takes while nobody plays."""
        async with self._node(IN_PROCESS, []) as (pid, port):
            _, cores = await _measured(pid, port, seconds)
        return cores

    async def answers(self, way: str) -> Answers:
        """Press and release a key again and again, and watch the picture."""
        session_id = new_session_id(POOL)
        alice = LivePerson()
        await alice.enter(self.server.url, self.tokens.controller(session_id, "alice"))
        playing = self._raw([session_id], LONG_S) if way == RAW else self._node(way, [session_id])
        async with playing:
            await wait_until(lambda: alice.frames, "a picture", timeout_s=LONG_S)
            took_s = [await _press(alice, white=turn % 2 == 0) for turn in range(2 * PRESSES)]
        await alice.leave()
        took_s = took_s[2:]  # the first ones find everything cold
        return Answers(
            way=way, median_ms=1000 * statistics.median(took_s), worst_ms=1000 * max(took_s)
        )

    @contextlib.asynccontextmanager
    async def _audience(self, sessions: list[str]) -> AsyncIterator[None]:
        """A controller in each room, who watches nothing: decoding would cost more than playing."""
        people = [rtc.Room() for _ in sessions]
        for room, session_id in zip(people, sessions, strict=True):
            token = self.tokens.controller(session_id, "alice")
            await room.connect(self.server.url, token, rtc.RoomOptions(auto_subscribe=False))
        yield
        for room in people:
            await room.disconnect()

    @contextlib.asynccontextmanager
    async def _raw(
        self, sessions: list[str], seconds: float
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        tokens = [self.tokens.worker(session_id, _RAW_WORKER) for session_id in sessions]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scripts.benchmarks.node.raw",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        job = {"url": self.server.url, "tokens": tokens, "seconds": seconds, "settle_s": SETTLE_S}
        if process.stdin is not None:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            await process.stdin.drain()
        try:
            if (said := await _line(process)) != "plays":
                raise RuntimeError(f"the SDK's process said {said!r} instead of playing")
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @contextlib.asynccontextmanager
    async def _node(self, way: str, sessions: list[str]) -> AsyncIterator[tuple[int, int]]:
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            options = {
                "LIVEKIT_URL": self.server.url,
                "LIVEKIT_API_KEY": self.server.api_key,
                "LIVEKIT_API_SECRET": self.server.api_secret,
                "PIPE_PATH": bench_service.__file__,
                "MAX_SESSIONS_PER_WORKER": str(len(sessions) or 1),
                "WORKER_MODE": way,
                "METRICS_PORT": str(port),
                "SKIP_VALIDATION": "true",
            }
            node = await NodeProcess.start(self._redis_url, Path(folder), **options)
            process = node._process  # noqa: SLF001
            reading = asyncio.gather(_drain(process.stdout), _drain(process.stderr))
            try:
                await node.ready(self._registry)
                for session_id in sessions:
                    await self._open(session_id)
                yield process.pid, port
            finally:
                for session_id in sessions:  # or they would wait for the next node
                    await self._registry.cancel(session_id, Reason.CLIENT_STOP)
                node.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(30):
                        await process.wait()
                if process.returncode is None:
                    node.kill()
                await reading

    async def _open(self, session_id: str) -> None:
        await self._registry.open(
            OpenRequest(
                pool=POOL,
                session_id=session_id,
                request=SessionRequest(identity="alice", config={}),
                limits=SessionLimits(),
                queue_size=100,
            )
        )


async def _measured(pid: int, port: int, seconds: float) -> tuple[float, float]:
    await asyncio.sleep(SETTLE_S)
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]

    def used_s() -> float:
        return sum(times.user + times.system for times in (one.cpu_times() for one in family))

    frames, used, began_s = _frames(port), used_s(), time.monotonic()
    await asyncio.sleep(seconds)
    wall_s = time.monotonic() - began_s
    return (_frames(port) - frames) / wall_s, (used_s() - used) / wall_s


async def _press(alice: LivePerson, *, white: bool) -> float:
    """Change the key and return the seconds until the picture has changed as well."""
    began_s = time.monotonic()
    await alice.say({"type": "control_state", "controls": ["w"] if white else []})

    def shown() -> bool:
        return bool(alice.frames) and bool(alice.frames[-1].image[::16, ::16].mean() > 200) == white

    while not shown():
        await asyncio.sleep(0.001)
        if time.monotonic() - began_s > LONG_S:
            raise AssertionError("the key never reached the picture")
    took_s = time.monotonic() - began_s
    del alice.frames[:-1]
    await asyncio.sleep(0.3 + (hash(began_s) % 100) / 400)  # at another place in a chunk each time
    return took_s


def _frames(port: int) -> float:
    """Frames that a node has played."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found = re.search(rb"^greenroom_node_frames_total ([\d.e+]+)", answer.read(), re.MULTILINE)
    return float(found.group(1)) if found else 0.0


async def _line(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(LONG_S):
        line = await process.stdout.readline() if process.stdout is not None else b""
    return line.decode().strip()


async def _drain(lines: asyncio.StreamReader | None) -> None:
    """Read what the node logs, or it would wait for that; pass on what went wrong."""
    while lines is not None and (line := await lines.readline()):
        if b'"level": "error"' in line or b"[error" in line:
            print(line.decode(errors="replace").rstrip(), file=sys.stderr, flush=True)
