"""Hints: each (re)subscription is one, and whoever follows them can be stopped at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio.client import PubSub

from shared.store import Registry, keys, wakeups
from shared.store.connection import Connection
from tests.support.redis_server import POOL, RawRedis, StartRedis
from tests.support.wait import scaled_s, wait_until

NODE = "n1"
CHANNEL = keys.assignments_channel(POOL, NODE)
MOMENTS = 60
"""Turns of the event loop that a subscription takes, and a margin; each is one to be stopped at."""


class Follower:
    """Follows a node's hints in a task of its own."""

    def __init__(self, registry: Registry) -> None:
        self.heard: list[str | None] = []
        self.task = asyncio.create_task(self._follow(registry.assignment_hints(POOL, NODE)))

    async def _follow(self, hints: AsyncIterator[str | None]) -> None:
        async for hint in hints:
            self.heard.append(hint)

    async def stop(self) -> bool:
        """Ask once; return whether that was enough."""
        self.task.cancel()
        done, _ = await asyncio.wait({self.task}, timeout=scaled_s(2))
        return bool(done)


async def test_a_subscription_is_a_hint_and_so_is_each_message(
    registry: Registry, raw_redis: RawRedis
) -> None:
    """Whoever reads the registry at the first one has missed nothing."""
    follower = Follower(registry)
    await wait_until(lambda: follower.heard == [None], "the subscription is told")
    raw_redis.publish(CHANNEL, "come")
    await wait_until(lambda: follower.heard == [None, "come"], "the message is told")
    assert await follower.stop()


async def test_a_new_subscription_after_a_restart_is_a_hint(start_redis: StartRedis) -> None:
    """What was published while nobody listened is lost, so it's time to read."""
    server = start_redis()
    registry = Registry.connect(server.url)
    follower = Follower(registry)
    await wait_until(lambda: follower.heard == [None], "the subscription is told")
    server.kill()
    server.start()
    await wait_until(lambda: follower.heard == [None, None], "the next one too", timeout_s=20)
    assert await follower.stop()
    await registry.aclose()


async def test_a_quiet_channel_is_asked_for_a_sign_of_life(
    registry: Registry, raw_redis: RawRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut wire would look the same; the answer isn't a hint."""
    monkeypatch.setattr(wakeups, "_SILENCE_S", 0.1)
    follower = Follower(registry)

    def asked() -> bool:
        return any(client["cmd"] == "ping" for client in raw_redis.client_list("pubsub"))

    await wait_until(asked, "the quiet channel is asked")
    raw_redis.publish(CHANNEL, "come")
    await wait_until(lambda: follower.heard == [None, "come"], "the same subscription goes on")
    assert await follower.stop()


async def test_a_server_that_falls_silent_is_left(
    start_redis: StartRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next subscription finds out what was missed."""
    monkeypatch.setattr(wakeups, "_SILENCE_S", 0.2)
    subscribers: list[PubSub] = []
    make = Connection.pubsub

    def counted(self: Connection, pool: str) -> PubSub:
        subscribers.append(make(self, pool))
        return subscribers[-1]

    monkeypatch.setattr(Connection, "pubsub", counted)
    server = start_redis()
    registry = Registry.connect(server.url)
    follower = Follower(registry)
    await wait_until(lambda: follower.heard == [None], "the subscription is told")
    server.pause()
    await wait_until(lambda: len(subscribers) > 1, "another connection is tried")
    server.resume()
    await wait_until(lambda: follower.heard[:2] == [None, None], "the next subscription is told")
    assert await follower.stop()
    await registry.aclose()


async def test_being_stopped_is_never_missed(registry: Registry) -> None:
    """At no turn of the loop does a library swallow the cancellation."""
    missed = []
    for moment in range(MOMENTS):
        follower = Follower(registry)
        for _ in range(moment):
            await asyncio.sleep(0)
        if not await follower.stop():
            missed.append(moment)
            await follower.stop()
    assert missed == []
