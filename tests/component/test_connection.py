"""A registry that is out: an answer within a second, no hang, and everything goes on afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis.exceptions

from shared.errors import StartupError, StoreUnavailable
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import BeatLink, Registry
from shared.store.endpoints import ANSWER_WITHIN_S
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RawRedis, RedisServer, StartRedis
from tests.support.scenario import sid
from tests.support.wait import scaled_s, wait_until

KEPT = ("--appendonly", "yes", "--appendfsync", "always")
A_MOMENT_S = 0.5


def opening(letter: str) -> OpenRequest:
    """One request to open a session."""
    return OpenRequest(
        pool=POOL,
        session_id=sid(letter),
        request=SessionRequest(identity="ann"),
        limits=SessionLimits(),
        queue_size=100,
    )


@pytest.fixture
def server(start_redis: StartRedis) -> RedisServer:
    """A server that the test may hurt, and that keeps what it said."""
    return start_redis(*KEPT)


@pytest_asyncio.fixture
async def own_registry(server: RedisServer) -> AsyncIterator[Registry]:
    """A registry on it."""
    registry = Registry.connect(server.url)
    yield registry
    await registry.aclose()


async def refused(registry: Registry, letter: str) -> float:
    """Return after how many seconds a call was refused as unavailable."""
    started_s = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await registry.open(opening(letter))
    return time.monotonic() - started_s


async def test_a_killed_server_is_told_at_once_and_forgiven_later(
    server: RedisServer, own_registry: Registry
) -> None:
    """Nothing that was answered is lost, and the same registry object goes on."""
    await own_registry.open(opening("a"))
    server.kill()
    assert await refused(own_registry, "b") < scaled_s(ANSWER_WITHIN_S + A_MOMENT_S)
    server.start()

    async def answers() -> bool:
        try:
            return bool(await own_registry.touch([sid("a")]))
        except StoreUnavailable:
            return False

    await wait_until(answers, "the session is read again")
    await own_registry.open(opening("b"))
    assert (await own_registry.read(sid("b"))).position == 2


async def test_a_frozen_server_costs_each_caller_a_second(
    server: RedisServer, own_registry: Registry
) -> None:
    """A hundred calls at once: all are refused in time, and later replies meet their requests."""
    await own_registry.open(opening("a"))
    server.pause()
    seconds = await asyncio.gather(*(refused(own_registry, "b") for _ in range(100)))
    server.resume()
    assert max(seconds) < scaled_s(ANSWER_WITHIN_S + A_MOMENT_S)
    await wait_until(lambda: _reads(own_registry, "a"), "the server answers again")
    for letter in "cdefgh":
        await own_registry.open(opening(letter))
    found = await asyncio.gather(*(own_registry.read(sid(letter)) for letter in "acdefgh"))
    assert [record.session_id for record in found] == [sid(letter) for letter in "acdefgh"]


async def _reads(registry: Registry, letter: str) -> bool:
    try:
        return (await registry.read(sid(letter))).session_id == sid(letter)
    except StoreUnavailable:
        return False


async def test_a_call_that_ran_though_it_was_refused_is_found_when_repeated(
    server: RedisServer, own_registry: Registry
) -> None:
    """The frozen server had it in its socket: the repeat finds one session, not two."""
    await own_registry.ping()
    server.pause()
    await refused(own_registry, "a")
    server.resume()
    await wait_until(lambda: _opens(own_registry, "a"), "the repeat is answered")
    assert (await own_registry.snapshot(POOL)).queued == 1


async def _opens(registry: Registry, letter: str) -> bool:
    try:
        await registry.open(opening(letter))
    except StoreUnavailable:
        return False
    return True


async def test_a_beat_is_refused_in_time_and_comes_back(server: RedisServer) -> None:
    """The beat's thread needs its answer to know when to fall silent."""
    registry = Registry.connect(server.url)
    node = await PlayedNode.begin(registry, server.url)
    server.pause()
    started_s = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await node.beat()
    assert time.monotonic() - started_s < scaled_s(ANSWER_WITHIN_S + A_MOMENT_S)
    server.resume()
    await wait_until(lambda: _beats(node), "a beat is confirmed again")
    await node.retire()
    await registry.aclose()


async def _beats(node: PlayedNode) -> bool:
    try:
        await node.beat()
    except StoreUnavailable:
        return False
    return True


REFUSALS = {
    "LOADING Redis is loading the dataset in memory": True,
    "READONLY You can't write against a read only replica.": True,
    "BUSY Redis is busy running a script.": True,
    "TRYAGAIN Multiple keys request during rehashing of slot": True,
    "NOREPLICAS Not enough good replicas to write.": True,
    "CLUSTERDOWN The cluster is down": True,
    "MASTERDOWN Link with MASTER is down": True,
    "MISCONF Redis is configured to save RDB snapshots": True,
    "OOM command not allowed when used memory > 'maxmemory'.": True,
    "ERR user_script: attempt to index a nil value": False,
}


@pytest_asyncio.fixture
async def refusing() -> AsyncIterator[tuple[str, list[str]]]:
    """A stand-in server that greets politely and answers each script with what the test says."""
    says: list[str] = []
    talks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.current_task())
        while head := await reader.readline():
            parts = []
            for _ in range(int(head[1:])):
                length = int((await reader.readline())[1:])
                parts.append((await reader.readexactly(length + 2))[:-2])
            is_script = parts[0].upper() in (b"EVALSHA", b"EVAL")
            writer.write(f"-{says[0]}\r\n".encode() if is_script else b"+OK\r\n")
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    yield f"redis://{host}:{port}/0?protocol=2", says
    listener.close()
    await asyncio.gather(*(talk for talk in talks if talk))


@pytest.mark.parametrize(("refusal", "passes"), REFUSALS.items())
async def test_what_may_pass_is_unavailable_and_the_rest_is_a_fault(
    refusing: tuple[str, list[str]], refusal: str, passes: bool
) -> None:
    """A server that can't serve now isn't a bug of ours; a script that breaks is."""
    url, says = refusing
    says.append(refusal)
    async with contextlib.aclosing(Registry.connect(url)) as registry:
        with pytest.raises(StoreUnavailable if passes else redis.exceptions.ResponseError):
            await registry.open(opening("a"))


async def test_nobody_there_is_an_operator_s_mistake_at_the_start() -> None:
    """One sentence with the way out, after the time that was given."""
    registry = Registry.connect("redis://127.0.0.1:1/0")
    with pytest.raises(StartupError, match="can't be reached"):
        await registry.check(within_s=0.2)
    await registry.aclose()


async def test_a_server_that_evicts_is_refused_at_the_start(
    start_redis: StartRedis,
) -> None:
    """It could lose sessions without a word."""
    server = start_redis("--maxmemory-policy", "allkeys-lru")
    registry = Registry.connect(server.url)
    with pytest.raises(StartupError, match="evict"):
        await registry.check()
    await registry.aclose()


async def test_a_sound_server_is_accepted(registry: Registry) -> None:
    """Both that we support."""
    await registry.check()


async def test_images_travel_on_a_connection_of_their_own(
    registry: Registry, raw_redis: RawRedis
) -> None:
    """Half a megabyte doesn't stand in the way of a beat."""
    await registry.put_image(sid("a"), b"x" * 512 * 1024)
    await registry.open(opening("a"))
    assert len(await registry.image(sid("a")) or b"") == 512 * 1024
    assert len(raw_redis.client_list()) >= 3


def test_a_link_closes_twice(redis_url: str) -> None:
    """Closing is harmless."""
    link = BeatLink(redis_url, POOL)
    link.close()
    link.close()
