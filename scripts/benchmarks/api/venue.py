"""What runs while a replica's HTTP side is measured?

A Redis of its own, a replica as operators start it, closed, and a bare server beside it: the two
share one core, Redis and whoever measures have the others. A node that takes everybody is only
played. LiveKit isn't on the path: a played room service holds its place.

Where that is allowed, all of them go before whatever else runs on the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from shared.access_keys import ApiKey, Scope, digest_of, id_of, new_key
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import FLAVOURS, RedisServer
from tests.support.replica_process import replica_environment
from tests.support.room_service import running_room_service

_NEVER_S = 100_000.0
_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class Server:
    """One process that answers HTTP."""

    url: str
    pid: int


class Venue:
    """All that is needed, running."""

    def __init__(self, redis: RedisServer, replica: Server, bare: Server, key: str) -> None:
        self.redis = redis
        self.replica = replica
        self.bare = bare
        self.headers = {"Authorization": f"Bearer {key}"}
        self._began = 0

    async def begin_node(self, slots: int, *, again: bool = False) -> None:
        """Let a node with so many slots begin; *again*: forget all sessions before that."""
        registry = Registry.connect(self.redis.url)
        try:
            if again:
                self._forget_sessions()
            self._began += 1
            name = f"node-{self._began}"
            node = await PlayedNode.begin(
                registry, self.redis.url, node_id=name, capacity=slots, ttl_s=_NEVER_S
            )
            node.link.close()
        finally:
            await registry.aclose()

    def _forget_sessions(self) -> None:
        with self.redis.client() as client:
            for key in client.scan_iter("*{default}*", count=10_000):
                client.unlink(key)


@contextlib.asynccontextmanager
async def open_venue(**options: str) -> AsyncIterator[Venue]:
    """Start everything; *options* are settings of the replica."""
    cores = sorted(os.sched_getaffinity(0))
    with _before_all_others(cores), tempfile.TemporaryDirectory(prefix="greenroom-bench-") as name:
        redis = RedisServer(FLAVOURS[0], "--appendonly", "no")
        redis.start()
        try:
            key = await _let_in(redis.url)
            async with running_room_service() as rooms:
                environment = replica_environment(
                    redis.url,
                    Path(name),
                    LIVEKIT_URL=rooms.url,
                    LIVEKIT_PUBLIC_URL="wss://media.example.org",
                    ADMIN_KEY=new_key("admin"),
                    CREATE_RATE="1000000",
                    READ_RATE="1000000",
                    ASSIGNED_TIMEOUT_S=f"{_NEVER_S:.0f}",
                    **options,
                )
                bare = ["-m", "scripts.benchmarks.api.bare"]
                with (
                    _server(bare, dict(os.environ), cores[0]) as plain,
                    _server(["-m", "control_plane"], environment, cores[0]) as replica,
                ):
                    yield Venue(redis, replica, plain, key)
        finally:
            redis.stop()


async def _let_in(redis_url: str) -> str:
    """Return an API key that may create and read."""
    key, registry = new_key(), Registry.connect(redis_url)
    try:
        record = ApiKey(
            key_id=id_of(key) or "",
            name="bench",
            scopes=frozenset((Scope.CREATE, Scope.READ)),
            digest=digest_of(key),
        )
        await registry.access.add(record, who="bench")
    finally:
        await registry.aclose()
    return key


@contextlib.contextmanager
def _before_all_others(cores: list[int]) -> Iterator[None]:
    """Run this process, and all that it starts, apart from the server's core and first."""
    os.sched_setaffinity(0, set(cores[1:] or cores))
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, set(cores))


@contextlib.contextmanager
def _server(command: list[str], environment: dict[str, str], core: int) -> Iterator[Server]:
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=log,
            text=True,
        )  # fmt: skip
        os.sched_setaffinity(process.pid, {core})
        try:
            yield Server(_address(process), process.pid)
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-4000:])
            raise
        finally:
            process.terminate()
            process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    for line in process.stdout or ():
        if found := re.fullmatch(r"listening on (http://\S+)\n", line):
            return found[1]
    raise RuntimeError("a server didn't start; what it said is above")
