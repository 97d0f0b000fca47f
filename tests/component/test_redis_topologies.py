"""Redis as several servers: a cluster whose nodes share the pools, Sentinels that promote replicas.

Whatever moves, no call hangs, what was acknowledged is there afterwards, and the same registry goes
on by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared.embedded.ports import free_port
from shared.errors import StartupError, StoreUnavailable
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason
from shared.store import BeatLink, Registry
from shared.store.console import ask
from shared.store.endpoints import ANSWER_WITHIN_S
from tests.support.played_node import PlayedNode
from tests.support.redis_server import FLAVOURS, POOL, StartRedis
from tests.support.redis_topologies import RedisCluster, Watched, tls_options
from tests.support.wait import scaled_s, wait_until

A_MOMENT_S = 2.0
LEASE_S = 2.5
"""Short, since dispatch is held for two beats after a failover; nobody sweeps here."""
pytestmark = pytest.mark.skipif(not FLAVOURS, reason="needs a Redis or Valkey binary")


@pytest.fixture(scope="module")
def servers() -> Iterator[StartRedis]:
    """Starts servers that all tests of this module share; each has its own pools."""
    start = StartRedis(FLAVOURS[0])
    yield start
    start.stop()


@pytest.fixture(scope="module")
def cluster(servers: StartRedis) -> RedisCluster:
    """Three masters."""
    return RedisCluster(servers, masters=3)


@pytest.fixture
def watched(start_redis: StartRedis) -> Iterator[Watched]:
    """A primary, its replica, a Sentinel."""
    watched = Watched(start_redis)
    yield watched
    watched.stop()


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[[str], Registry]]:
    """Connects to a registry and closes it in the end."""
    async with contextlib.AsyncExitStack() as stack:

        def connect(url: str) -> Registry:
            registry = Registry.connect(url)
            stack.push_async_callback(registry.aclose)
            return registry

        yield connect


def opening(pool: str) -> OpenRequest:
    """One request to open a session."""
    return OpenRequest(
        pool=pool,
        session_id=new_session_id(pool),
        request=SessionRequest(identity="ann"),
        limits=SessionLimits(),
        queue_size=100,
    )


async def opened(registry: Registry, pool: str) -> str:
    """Open a session and return its id."""
    request = opening(pool)
    await registry.open(request)
    return request.session_id


async def live_through(registry: Registry, url: str, pool: str) -> None:
    """One session plays and ends, a second one moves up; looked at by all ways to the server."""
    node = await PlayedNode.begin(registry, url, pool=pool)
    first = await opened(registry, pool)
    request = opening(pool)
    second = request.session_id
    await registry.put_image(second, b"jpeg")
    await registry.open(request)
    await node.play(first)
    assert (await registry.read(second)).position == 1
    assert await registry.image(second) == b"jpeg"
    assert await registry.request(first) == SessionRequest(identity="ann")
    await node.end(first, Reason.COMPLETED)
    await node.play(second)
    names = {key.name async for step in registry.inspection.keys(pool) for key in step}
    assert {"ctr", "ev", f"s:{first}", f"s:{second}", f"a:{second}"} <= names
    assert [session async for session, _ in registry.inspection.line(pool)] == []
    assert await registry.listing.node_ids(pool) == (node.node_id,)
    told = [event async for event in registry.trail.read(pool)]
    followed = registry.trail.follow(pool, "0")
    assert [await anext(followed) for _ in told] == told
    await followed.aclose()  # type: ignore[attr-defined]
    await node.end(second, Reason.COMPLETED)
    await node.retire()
    assert not any((await registry.snapshot(pool)).states.values())


async def test_one_master_is_a_whole_cluster(
    servers: StartRedis, connect: Callable[[str], Registry]
) -> None:
    """Its address may also be that of one server: there is nobody else to ask."""
    lone = RedisCluster(servers, masters=1)
    for number, url in enumerate((lone.url, f"redis://{lone.masters[0].address}/0")):
        registry = connect(url)
        await registry.check()
        await live_through(registry, url, f"pool-{number}")


async def test_all_ways_may_use_tls(
    servers: StartRedis, connect: Callable[[str], Registry], tmp_path: Path
) -> None:
    """A cluster whose nodes talk nothing else; its certificate is checked."""
    certificate, port = tmp_path / "certificate.pem", free_port()
    options = tls_options(FLAVOURS[0], certificate, port)
    if options is None:
        pytest.skip("openssl is not installed, or this server was built without TLS")
    lone = servers("--cluster-enabled", "yes", *options)
    with lone.client() as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await wait_until(
            lambda: "cluster_state:ok" in str(raw.execute_command("CLUSTER", "INFO")), "it serves"
        )
    for number, scheme in enumerate(("rediss", "rediss+cluster")):
        url = f"{scheme}://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"
        registry = connect(url)
        await registry.check()
        await live_through(registry, url, f"tls-{number}")
    with pytest.raises(StartupError, match="no connection"):
        await connect(f"rediss://127.0.0.1:{port}/0").check(within_s=0.2)


async def test_pools_live_on_the_nodes_that_have_their_slots(
    cluster: RedisCluster, connect: Callable[[str], Registry]
) -> None:
    """One registry serves them all, and each command goes to where its pool is."""
    registry = connect(cluster.url)
    await registry.check()
    for pool, master in zip(cluster.pools("life"), cluster.masters, strict=True):
        await live_through(registry, cluster.url, pool)
        assert master.ask("EXISTS", f"gr:{{{pool}}}:ctr") == 1


async def test_hints_of_all_pools_come_over_one_subscription(
    cluster: RedisCluster, connect: Callable[[str], Registry]
) -> None:
    """The nodes of a cluster pass messages on to each other."""
    registry, pools = connect(cluster.url), cluster.pools("hint")
    hints = registry.session_hints(pools, "replica-1")
    assert [await anext(hints) for _ in pools] == [None, None, None]
    for pool in pools:
        session_id = await opened(registry, pool)
        await registry.touch([session_id], replica="replica-1")
        await registry.cancel(session_id, Reason.CLIENT_STOP)
        assert await anext(hints) == session_id
    await hints.aclose()  # type: ignore[attr-defined]


async def test_the_console_asks_the_node_that_has_the_key(cluster: RedisCluster) -> None:
    """Whatever pool was named."""
    for pool in cluster.pools("ask"):
        assert ask(cluster.url, POOL, ("EXISTS", f"gr:{{{pool}}}:nothing")) == 0


async def test_a_cluster_isn_t_one_server(
    cluster: RedisCluster, connect: Callable[[str], Registry]
) -> None:
    """The operator is told at the start, not by a pool that happens to be elsewhere."""
    registry = connect(f"redis://{cluster.masters[0].address}/0")
    with pytest.raises(StartupError, match="one of several nodes of a cluster") as told:
        await registry.check()
    assert "redis+cluster://" in str(told.value.try_)
    elsewhere = cluster.pools("one")[1]
    with pytest.raises(StoreUnavailable, match="part of a cluster"):
        await registry.snapshot(elsewhere)


class Caller:
    """Calls on and on, as a replica and a node do; each call is answered or refused in time."""

    def __init__(self, registry: Registry, link: BeatLink, session_id: str) -> None:
        self._registry = registry
        self._link = link
        self._session_id = session_id
        self._pool = session_id.rpartition("-")[0]
        self.answered_in_a_row = 0
        self.refused = 0
        self.slowest_s = 0.0

    async def run(self) -> None:
        """Ask for one session and read the snapshot, for ever."""
        while True:
            await self._timed(lambda: self._registry.touch([self._session_id]))
            await self._timed(lambda: self._registry.snapshot(self._pool))
            await self._timed(lambda: self._registry.listing.node_ids(self._pool))
            await asyncio.sleep(0)

    async def _timed(self, call: Callable[[], Awaitable[object]]) -> None:
        started_s = time.monotonic()
        try:
            await call()
            self.answered_in_a_row += 1
        except StoreUnavailable:
            self.answered_in_a_row = 0
            self.refused += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)


@contextlib.asynccontextmanager
async def calling(registry: Registry, url: str, session_id: str) -> AsyncIterator[Caller]:
    """Have calls go on while the block lasts; none of them may hang."""
    link = BeatLink(url, session_id.rpartition("-")[0])
    caller = Caller(registry, link, session_id)
    task = asyncio.create_task(caller.run())
    try:
        yield caller
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        link.close()
    assert caller.slowest_s < scaled_s(ANSWER_WITHIN_S + A_MOMENT_S)


async def answers_again(caller: Caller) -> None:
    """Wait until calls are answered, all of them."""
    caller.answered_in_a_row = 0
    await wait_until(lambda: caller.answered_in_a_row > 20, "the registry answers", timeout_s=20)


async def beats(node: PlayedNode) -> bool:
    """Whether a beat is confirmed."""
    try:
        await node.beat()
    except StoreUnavailable:
        return False
    return True


async def goes_on_with(registry: Registry, node: PlayedNode, playing: str, waiting: str) -> None:
    """The same sessions are there, the node's beats are heard, and the next one is served."""
    await wait_until(lambda: beats(node), "the node's beat is confirmed", timeout_s=15)
    assert (await registry.read(waiting)).position == 1
    assert (await registry.read(playing)).node_id == node.node_id
    await node.end(playing, Reason.COMPLETED)

    async def is_served() -> bool:
        await node.beat()
        return waiting in node.residents

    await wait_until(is_served, "who waited is served", timeout_s=15)
    await node.end(waiting, Reason.COMPLETED)
    await node.retire()


async def test_a_moving_pool_is_refused_until_it_has_arrived(
    cluster: RedisCluster, connect: Callable[[str], Registry]
) -> None:
    """Half a pool would look like an emptier one, so nobody is sent to it (ASK)."""
    pool, url = "moving", cluster.url
    registry = connect(url)
    source = cluster.master_of(pool)
    target = next(master for master in cluster.masters if master is not source)
    node = await PlayedNode.begin(registry, url, pool=pool, ttl_s=LEASE_S)
    playing, waiting = await opened(registry, pool), await opened(registry, pool)
    await node.play(playing)
    async with calling(registry, url, waiting) as caller:
        await answers_again(caller)
        cluster.begin_move(pool, target)
        cluster.move_keys(pool, target, most=3)
        with pytest.raises(StoreUnavailable, match="being moved"):
            await registry.touch([waiting])
        assert not await beats(node)
        cluster.move_keys(pool, target, most=1000)
        assert not await beats(node)
        cluster.end_move(pool, target)
        await answers_again(caller)
    await goes_on_with(registry, node, playing, waiting)


async def test_a_replica_of_a_dead_master_is_found(
    cluster: RedisCluster, connect: Callable[[str], Registry]
) -> None:
    """The others tell where the pool is."""
    pool, url = cluster.pools("dead")[0], cluster.url
    registry = connect(url)
    node = await PlayedNode.begin(registry, url, pool=pool, ttl_s=LEASE_S)
    playing, waiting = await opened(registry, pool), await opened(registry, pool)
    await node.play(playing)
    replica = cluster.add_replica(cluster.masters[0])
    async with calling(registry, url, waiting) as caller:
        await answers_again(caller)
        cluster.masters[0].process.kill()
        await wait_until(lambda: caller.refused, "the master's death is noticed", timeout_s=15)
        await answers_again(caller)
    cluster.masters[0] = replica
    await goes_on_with(registry, node, playing, waiting)


async def has_left(watched: Watched, node: PlayedNode) -> bool:
    """Whether nobody who calls scripts is connected to the old primary any more."""
    await beats(node)
    return "cmd=evalsha" not in str(watched.primary.ask("CLIENT", "LIST"))


@pytest.mark.parametrize("how", ["killed", "frozen", "asked"])
async def test_a_promoted_replica_is_found(
    watched: Watched, connect: Callable[[str], Registry], how: str
) -> None:
    """Whether the primary dies, stands still, or an operator wants it."""
    registry, url = connect(watched.url), watched.url
    await registry.check()
    node = await PlayedNode.begin(registry, url, ttl_s=LEASE_S)
    playing, waiting = await opened(registry, POOL), await opened(registry, POOL)
    await node.play(playing)
    async with calling(registry, url, waiting) as caller:
        await answers_again(caller)
        watched.primary.ask("WAIT", 1, 1000)
        match how:
            case "killed":
                watched.primary.process.kill()
            case "frozen":
                watched.primary.process.pause()
            case _:
                watched.fail_over()
        await wait_until(lambda: watched.replica.role == "master", "the other is promoted", 20)
        if how == "asked":  # the old primary may serve for ten seconds more
            await wait_until(lambda: has_left(watched, node), "it is left all the same", 15)
        await answers_again(caller)
    await goes_on_with(registry, node, playing, waiting)


async def test_sentinels_that_know_nothing_are_told_apart(
    watched: Watched, connect: Callable[[str], Registry]
) -> None:
    """A wrong service, a server that is no Sentinel, a Sentinel that is taken for a server."""
    sentinel, primary = f"127.0.0.1:{watched.sentinel_port}", watched.primary.address
    for url, words in (
        (f"redis+sentinel://{sentinel}/other", "know no primary of this name"),
        (f"redis+sentinel://{primary}/stage", "none of a Sentinel"),
        ("redis+sentinel://127.0.0.1:1/stage", "no Sentinel answers"),
        (f"redis+cluster://{primary}", "none of a cluster"),
        ("redis+cluster://127.0.0.1:1", "no node of the cluster answers"),
        (f"redis://{sentinel}", "holds no data"),
    ):
        with pytest.raises(StartupError, match=words):
            await connect(url).check(within_s=0.2)


def test_an_address_that_can_t_be_one_is_a_sentence() -> None:
    """Nothing is tried."""
    with pytest.raises(StartupError, match="names no service"):
        Registry.connect("redis+sentinel://127.0.0.1")
