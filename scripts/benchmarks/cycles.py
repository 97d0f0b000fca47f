"""Is everything given back after many sessions on a real media server?

One node process with a tiny service (pictures, sound, a change of both formats half-way), a real
LiveKit, a person per session who watches and then ends it in one of three ways: by ``stop``, by
leaving the room and cancelling, or by letting the service finish. The node's threads, descriptors
and memory are read when it's idle, after a warm-up and at the end; so are the media server's rooms
and participants, and the registry's slots. Exit code 1 if anything isn't back where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from livekit import api

from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason
from shared.store import Registry
from tests.livekit.conftest import tokens_for
from tests.support import synthetic_service
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, running_livekit
from tests.support.node_process import NodeProcess
from tests.support.redis_server import FLAVOURS, POOL, RedisServer
from tests.support.wait import wait_until

WARM_UP, SETTLE_S, MOST_SETTLE_S, LONG_S = 60, 25.0, 150.0, 60.0
MOST_THREADS, MOST_DESCRIPTORS, MOST_MIB = 2, 4, 24
"""More than these above the warm state is a leak; allocators keep some memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is held while nothing plays."""

    sessions: int
    threads: int
    descriptors: int
    memory_mib: float
    rooms: int
    participants: int
    slots_used: int

    def row(self) -> str:
        """One line of the table."""
        return (
            f"| {self.sessions} | {self.threads} | {self.descriptors} | {self.memory_mib:.1f} "
            f"| {self.rooms} | {self.participants} | {self.slots_used} |"
        )


class Theatre:
    """The node, the media server and the registry that the sessions run through."""

    def __init__(self, server: LiveKitServer, registry: Registry, node: NodeProcess) -> None:
        self._server = server
        self._registry = registry
        self._process = psutil.Process(node._process.pid)  # noqa: SLF001
        self._tokens = tokens_for(server)
        self._ways = itertools.cycle(("stop", "leave", "finish"))
        self.played = 0

    async def play(self, count: int, at_once: int) -> None:
        """Play *count* sessions, *at_once* of them beside each other."""
        numbers: Iterator[int] = iter(range(count))

        async def one_after_the_other() -> None:
            for _ in numbers:
                await self._cycle(next(self._ways))
                self.played += 1

        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))

    async def read(self) -> Reading:
        """Let everything settle, then look.

        The SDK's threads take some seconds to end, then the node tidies up (`gpu_node.memory`).
        """
        await self._settle()
        async with api.LiveKitAPI(
            self._server.url.replace("ws", "http", 1),
            self._server.api_key,
            self._server.api_secret,
        ) as media:
            rooms = (await media.room.list_rooms(api.ListRoomsRequest())).rooms
        nodes = (await self._registry.snapshot(POOL)).nodes
        return Reading(
            sessions=self.played,
            threads=self._process.num_threads(),
            descriptors=self._process.num_fds(),
            memory_mib=self._process.memory_info().rss / 2**20,
            rooms=len(rooms),
            participants=sum(room.num_participants for room in rooms),
            slots_used=sum(node.used for node in nodes),
        )

    async def _settle(self) -> None:
        held: tuple[int, int] | None = None
        least_mib = math.inf
        began_s = time.monotonic()
        while time.monotonic() - began_s < MOST_SETTLE_S:
            await asyncio.sleep(SETTLE_S)
            before, held = held, (self._process.num_threads(), self._process.num_fds())
            memory_mib = self._process.memory_info().rss / 2**20
            falls, least_mib = memory_mib < least_mib - 1, min(least_mib, memory_mib)
            if held == before and not falls:
                return

    async def _cycle(self, way: str) -> None:
        session_id = new_session_id(POOL)
        config: dict[str, object] = {"sound_hz": 16_000, "change_at": 8}
        if way == "finish":
            config |= {"chunks": 50, "delivery_mode": "lossless"}
        await self._registry.open(
            OpenRequest(
                pool=POOL,
                session_id=session_id,
                request=SessionRequest(identity="alice", config=config),
                limits=SessionLimits(),
                queue_size=100,
            )
        )
        alice = LivePerson()
        await alice.enter(self._server.url, self._tokens.controller(session_id, "alice"))
        await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
        if way == "stop":
            await alice.say({"type": "stop"})
        elif way == "finish":
            await wait_until(lambda: alice.of_type("done"), "the end of the film", timeout_s=LONG_S)
            played = alice.of_type("done")[0]["published_frames"]
            await alice.say({"type": "delivery_ack", "published_frames": played})
        elif way == "leave":
            await alice.leave()
            await self._registry.cancel(session_id, Reason.CLIENT_STOP)

        async def ended() -> bool:
            return (await self._registry.read(session_id)).ended

        await wait_until(ended, f"a session that ends by {way} is over", timeout_s=LONG_S)
        if way != "leave":
            await alice.leave()


def verdict(warm: Reading, end: Reading) -> list[str]:
    """Return what isn't back where it was."""
    grown = {
        "threads": (end.threads - warm.threads, MOST_THREADS),
        "descriptors": (end.descriptors - warm.descriptors, MOST_DESCRIPTORS),
        "MiB of memory": (round(end.memory_mib - warm.memory_mib), MOST_MIB),
        "rooms": (end.rooms, 0),
        "participants": (end.participants, 0),
        "slots": (end.slots_used, 0),
    }
    return [f"{found} {what} too many" for what, (found, most) in grown.items() if found > most]


async def run(sessions: int, at_once: int) -> int:
    """Play all sessions and print the table; the exit code."""
    redis = RedisServer(FLAVOURS[0])
    redis.start()
    registry = Registry.connect(redis.url)
    began_s = time.monotonic()
    try:
        with running_livekit() as server, tempfile.TemporaryDirectory() as folder:
            options = {
                "LIVEKIT_URL": server.url,
                "LIVEKIT_API_KEY": server.api_key,
                "LIVEKIT_API_SECRET": server.api_secret,
                "PIPE_PATH": synthetic_service.__file__,
                "MAX_SESSIONS_PER_WORKER": str(at_once),
            }
            node = await NodeProcess.start(redis.url, Path(folder), **options)
            reading = asyncio.gather(*map(_drain, (node._process.stdout, node._process.stderr)))  # noqa: SLF001
            try:
                await node.ready(registry)
                warm, end = await _play_all(Theatre(server, registry, node), sessions, at_once)
            finally:
                node.kill()
                await reading
    finally:
        await registry.aclose()
        redis.stop()
    faults = verdict(warm, end)
    print(
        f"\n{end.sessions} sessions in {time.monotonic() - began_s:.0f} s, {at_once} at once: ",
        end="",
    )
    print("; ".join(faults) if faults else "everything was given back")
    return 1 if faults else 0


async def _play_all(theatre: Theatre, sessions: int, at_once: int) -> tuple[Reading, Reading]:
    print("| sessions | threads | descriptors | MiB | rooms | people | slots |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print((await theatre.read()).row(), flush=True)
    await theatre.play(min(WARM_UP, sessions), at_once)
    warm = end = await theatre.read()
    print(warm.row(), flush=True)
    for share in range(4):
        await theatre.play((sessions + share) // 4, at_once)
        end = await theatre.read()
        print(end.row(), flush=True)
    return warm, end


async def _drain(lines: asyncio.StreamReader | None) -> None:
    """Read what the node logs, or it would wait for that; print what went wrong."""
    while lines is not None and (line := await lines.readline()):
        if b'"level": "error"' in line or b"[error" in line:
            print(line.decode(errors="replace").rstrip(), file=sys.stderr, flush=True)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="scripts/bench cycles", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=4)
    options = parser.parse_args()
    # Like Ctrl-C, or the servers and the node would outlive this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = asyncio.run(run(options.sessions, options.at_once))
    sys.stdout.flush()
    os._exit(code)  # the SDK's threads may abort a process that ends right after a disconnect


if __name__ == "__main__":
    main()
