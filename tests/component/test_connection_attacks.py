"""The way to Redis under attack: cancelled callers, lost replies, forgotten scripts, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest_asyncio

from shared.errors import StoreUnavailable
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import BeatLink, Registry
from shared.store.connection import Connection
from shared.store.scripts import Argument, all_names, load
from tests.support.key_dump import Facts, dump
from tests.support.played_node import PlayedNode
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import POOL, RawRedis, RedisServer, StartRedis
from tests.support.scenario import Reply, World
from tests.support.wait import wait_until
from tests.support.whole_life import live

KEPT = ("--appendonly", "yes", "--appendfsync", "always")
CANCELLED = 1000
AT_ONCE = 25


@pytest_asyncio.fixture
async def proxy(start_redis: StartRedis) -> AsyncIterator[RedisProxy]:
    """A server of the test's own behind a proxy."""
    async with proxied(start_redis()) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def registry(proxy: RedisProxy) -> AsyncIterator[Registry]:
    """A registry on the far side."""
    async with contextlib.aclosing(Registry.connect(proxy.url)) as registry:
        yield registry


async def open_sessions(registry: Registry, count: int) -> list[str]:
    """Open sessions, each with an identity that tells it from the others, and return their ids."""
    names = [new_session_id(POOL) for _ in range(count)]
    for number, name in enumerate(names):
        await registry.put_image(name, f"image {number}".encode())
        await registry.open(
            OpenRequest(
                pool=POOL,
                session_id=name,
                request=SessionRequest(identity=f"guest-{number}"),
                limits=SessionLimits(),
                queue_size=count,
            )
        )
    return names


def questions(
    registry: Registry, names: list[str], chance: random.Random
) -> Callable[[], Awaitable[None]]:
    """Return a call that asks for a random session in a random way and checks that it's meant."""

    async def by_script(number: int) -> None:
        record = await registry.read(names[number])
        assert (record.session_id, record.position) == (names[number], number + 1)

    async def by_scripts(number: int) -> None:
        asked = {names[number], names[-1 - number]}
        assert set(await registry.touch(asked)) == asked

    async def by_get(number: int) -> None:
        assert await registry.request(names[number]) == SessionRequest(identity=f"guest-{number}")

    async def by_image(number: int) -> None:
        assert await registry.image(names[number]) == f"image {number}".encode()

    def ask() -> Awaitable[None]:
        way = chance.choice((by_script, by_scripts, by_get, by_image))
        return way(chance.randrange(len(names)))

    return ask


async def test_whoever_gives_up_shifts_nobody_s_reply(
    proxy: RedisProxy, registry: Registry
) -> None:
    """A thousand random awaits are cancelled on a slow way; every later reply is the asked one."""
    chance = random.Random("cancelled")
    names = await open_sessions(registry, 20)
    proxy.delay_s = lambda: chance.uniform(0, 0.002)
    ask = questions(registry, names, chance)
    cancelled = answered = 0

    async def impatient() -> None:
        nonlocal cancelled, answered
        while cancelled < CANCELLED:
            task = asyncio.ensure_future(ask())
            await asyncio.wait({task}, timeout=chance.uniform(0, 0.05))
            if task.cancel():
                cancelled += 1
            else:
                answered += 1
            with contextlib.suppress(asyncio.CancelledError, StoreUnavailable):
                await task

    await asyncio.gather(*(impatient() for _ in range(AT_ONCE)))
    assert answered > CANCELLED / 20, "hardly anything was compared"
    proxy.delay_s = lambda: 0.0
    await asyncio.gather(*(ask() for _ in range(200)))


class FarWorld(World):
    """A world whose calls go over the connection under test; it lives in a thread."""

    def __init__(self, raw: RawRedis, call: Callable[[str, dict[str, Argument]], Reply]) -> None:
        super().__init__(raw)
        self._call = call

    def run(self, script: str, /, **named: Argument) -> Reply:
        """Call *script* at the present time, far away."""
        self.called.add(script)
        told = self._call(script, {"now_ms": self.now_ms, **named})
        if script in ("end_session", "give_back") and told[0] != "fenced":
            self._drop(named)
        # The answer of the run that counted was lost; the repeat finds what it did.
        return ("created", told[1]) if told[0] == "exists" else told

    def kill(self, node_id: str) -> None:
        """Let a node die; the sweep that tells of it may be the one whose reply is lost."""
        self.pass_time(10)
        assert self.run("sweep_nodes", budget=64)[0] == "done"
        assert self.raw.zscore(f"{self.prefix}nodes", node_id) is None


def settled(facts: Facts) -> Facts:
    """Return what doesn't depend on how long a life took: times to live only in minutes."""
    return {
        fact: str(round(int(value) / 60)) if fact.endswith(" ttl") else value
        for fact, value in facts.items()
    }


async def test_a_lost_reply_changes_nothing(start_redis: StartRedis) -> None:
    """The first reply to every single call is lost; what is left is what one run each leaves."""
    plain, attacked = start_redis(), start_redis()
    for server in (plain, attacked):
        with server.client() as raw:
            for name in all_names():
                raw.script_load(load(name).source)
    loop = asyncio.get_running_loop()
    seen: set[bytes] = set()

    def is_first(command: bytes) -> bool:
        if b"EVALSHA" not in command or command in seen:
            return False
        seen.add(command)
        return True

    async with proxied(attacked) as proxy:
        proxy.loses_reply_of = is_first
        connection = Connection(proxy.url)

        def call(script: str, named: dict[str, Argument]) -> Reply:
            called = connection.call(script, POOL, **named)
            return asyncio.run_coroutine_threadsafe(called, loop).result()

        with attacked.client() as raw:
            await asyncio.to_thread(live, FarWorld(raw, call))
            found = dump(raw)
        await connection.aclose()
        assert proxy.lost == len(seen)
        assert len(seen) > len(all_names())
    with plain.client() as raw:
        await asyncio.to_thread(live, World(raw))
        assert settled(found) == settled(dump(raw))


async def keep_asking(ask: Callable[[], Awaitable[object]], done: asyncio.Event) -> int:
    """Ask until *done*, one call after the other; return how many were refused as unavailable."""
    refused = 0
    while not done.is_set():
        try:
            await ask()
        except StoreUnavailable:
            refused += 1
        await asyncio.sleep(0)
    return refused


async def traffic(registry: Registry, url: str, attack: Callable[[], Awaitable[None]]) -> int:
    """Let twenty callers and a node go on while *attack* lasts; return how many were refused."""
    chance = random.Random("traffic")
    names = await open_sessions(registry, 20)
    node = await PlayedNode.begin(registry, url, capacity=0)
    ask, done = questions(registry, names, chance), asyncio.Event()
    callers = [
        *(asyncio.create_task(keep_asking(ask, done)) for _ in range(20)),
        asyncio.create_task(keep_asking(node.beat, done)),
        asyncio.create_task(keep_asking(lambda: registry.snapshot(POOL), done)),
        asyncio.create_task(keep_asking(lambda: registry.sweep_deadlines(POOL), done)),
    ]
    try:
        await attack()
    finally:
        done.set()
        refused = sum(await asyncio.gather(*callers))
        node.link.close()
    return refused


async def test_forgotten_scripts_are_no_fault(start_redis: StartRedis) -> None:
    """SCRIPT FLUSH in mid-traffic, a hundred times: every call is answered."""
    server = start_redis()

    async def flush() -> None:
        with server.client() as raw:

            def sent_in_full(times: int) -> bool:
                executed = str(raw.info("commandstats").get("cmdstat_eval", "'calls': 0"))
                return int(re.findall(r"'calls': (\d+)", executed)[0]) >= times

            for times in range(1, 101):
                raw.script_flush()
                await wait_until(partial(sent_in_full, times), "a script is sent in full")

    async with contextlib.aclosing(Registry.connect(server.url)) as registry:
        assert await traffic(registry, server.url, flush) == 0


async def test_a_restart_is_an_outage_and_no_fault(start_redis: StartRedis) -> None:
    """Killed in mid-traffic and started again: refused meanwhile, then answered by the same data.

    The questions check that every place in line is what it was.
    """
    server = start_redis(*KEPT)

    async def restart() -> None:
        for _ in range(2):
            await asyncio.to_thread(kill_and_start, server)
            with server.client() as raw:
                await wait_until(lambda: _scripts_run(raw) > 100, "calls are heard again")

    async with contextlib.aclosing(Registry.connect(server.url)) as registry:
        await traffic(registry, server.url, restart)


def _scripts_run(raw: RawRedis) -> int:
    return int(raw.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def kill_and_start(server: RedisServer) -> None:
    """Let the server crash and come back."""
    server.kill()
    server.start()


async def _is_heard(node: PlayedNode) -> bool:
    with contextlib.suppress(StoreUnavailable):
        await node.beat()
        return True
    return False


async def test_a_beat_whose_reply_was_lost_may_be_sent_again(
    proxy: RedisProxy, registry: Registry
) -> None:
    """Its thread is told that there was no answer; the next beat is heard on a new connection."""
    node = await PlayedNode.begin(registry, proxy.url)
    link = BeatLink(proxy.url, POOL)
    proxy.loses_reply_of = lambda command: b"EVALSHA" in command
    assert not await _is_heard(node)
    proxy.loses_reply_of = lambda command: False
    assert await _is_heard(node)
    assert proxy.lost == 1
    link.close()
    node.link.close()
