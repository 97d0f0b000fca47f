"""Does the registry run on each version of Redis and Valkey that it says it runs on?

One container per version, each empty. What the levels store and model prove on the servers of this
machine is proved here in short on the others: every script, a replica's own look at the server, and
that a version that is too old is told instead of half working.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import redis
from testcontainers.core.container import DockerContainer

from shared.errors import StartupError
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.docker_engine import why_not
from tests.support.operator import open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL
from tests.support.scenario import World
from tests.support.wait import scaled_s, wait_until_sync
from tests.support.whole_life import live

pytestmark = pytest.mark.timeout(scaled_s(300))  # an image may have to be fetched first

PORT = 6379
VERSIONS = (
    "redis:7.0",
    "redis:7.2",
    "redis:7.4",
    "redis:8.0",
    "valkey/valkey:7.2",
    "valkey/valkey:8.0",
    "valkey/valkey:8.1",
    "valkey/valkey:9.0",
)
TOO_OLD = "redis:6.2"
OPTIONS = "--appendonly yes --maxmemory-policy noeviction --save ''"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One version, running."""

    url: str


@contextmanager
def running(image: str) -> Iterator[Server]:
    """Run a server of this image for the length of the block."""
    if reason := why_not():
        pytest.skip(reason)
    program = "valkey-server" if "valkey" in image else "redis-server"
    container = DockerContainer(image, command=f"{program} {OPTIONS}", ports=[PORT])
    with container:
        place = f"{container.get_container_host_ip()}:{container.get_exposed_port(PORT)}"
        server = Server(url=f"redis://{place}/0")
        wait_until_sync(lambda: _answers(server), f"{image} answers", timeout_s=60)
        yield server


def _answers(server: Server) -> bool:
    with redis.Redis.from_url(server.url) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each version in turn."""
    with running(request.param) as server:
        yield server


def test_every_script_does_its_work(server: Server) -> None:
    """The shortest life of a pool in which each script is called."""
    with redis.Redis.from_url(server.url, decode_responses=True) as raw:
        raw.flushall()
        live(World(raw))


async def test_a_session_is_played_from_the_line_to_its_end(server: Server) -> None:
    """The server passes the look that a replica takes at its start, and serves the line."""
    with redis.Redis.from_url(server.url) as raw:
        raw.flushall()
    registry = Registry.connect(server.url)
    try:
        await registry.check((POOL,))
        assert registry.concerns == ()
        node = await PlayedNode.begin(registry, server.url, ttl_s=600)
        first, second = await open_sessions(registry, 2)
        await node.play(first)
        assert (await registry.read(second)).position == 1
        await node.end(first, Reason.COMPLETED)
        assert (await registry.read(second)).state is SessionState.ASSIGNED
        await node.retire()
    finally:
        await registry.aclose()


async def test_a_version_that_is_too_old_is_told() -> None:
    """One sentence with the version, instead of scripts that fail later."""
    with running(TOO_OLD) as server:
        registry = Registry.connect(server.url)
        try:
            with pytest.raises(StartupError, match=r"6\.2"):
                await registry.check((POOL,))
        finally:
            await registry.aclose()
