"""What a command answers stays whole, whatever happens on its way to the registry."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator

import pytest

from control_plane import receipt_text
from shared.store import Registry
from tests.support.operator import Operator, open_sessions
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import RawRedis, StartRedis
from tests.support.room_service import RoomService


@pytest.fixture
async def proxy(start_redis: StartRedis) -> AsyncIterator[RedisProxy]:
    """The way to a registry with a line."""
    server = start_redis()
    registry = Registry.connect(server.url)
    await open_sessions(registry, 2)
    await registry.aclose()
    async with proxied(server) as way:
        yield way


async def answer(url: str, *arguments: str) -> tuple[int | None, str, str]:
    """Run a command as a process of its own: its status, what it answers, what it complains of."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "control_plane.cli.main", *arguments),
        env={**os.environ, "GREENROOM_REDIS_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complained = await process.communicate()
    return process.returncode, told.decode(), complained.decode()


@pytest.mark.parametrize("command", ["receipt", "ps"])
async def test_a_connection_that_is_lost_on_the_way_leaves_no_trace(
    proxy: RedisProxy, command: str
) -> None:
    """The command goes on by itself, and no log line stands between what a program reads."""
    proxy.loses_reply_of = lambda sent: b"EVALSHA" in sent and proxy.lost == 0
    status, told, complained = await answer(proxy.url, command, "--json")
    assert proxy.lost == 1
    assert (status, complained) == (0, "")
    if command == "receipt":
        assert len(receipt_text.read(told).waits) == 2
    else:
        assert json.loads(told)["total"] == 2


@pytest.mark.parametrize("key", ["nodes", "q", "ns:node-x"])
async def test_a_key_of_somebody_else_ends_in_a_sentence(
    operator: Operator, raw_redis: RawRedis, key: str
) -> None:
    """Whoever looks is told that another program writes there; nothing is changed."""
    raw_redis.set(f"gr:{{default}}:{key}", "ours now")
    raw_redis.zadd("gr:{default}:nodes" if key != "nodes" else "other", {"node-x": 1})
    before = raw_redis.dbsize()
    commands = [("ps",), ("queue",), ("nodes",), ("redis",)]
    told = [await operator.says(*command) for command in commands]
    refused = [one for one in told if one.status == 2]
    assert refused
    assert all("holds what Greenroom never wrote: " in one.text for one in refused)
    assert not any("script:" in one.text for one in refused)
    assert raw_redis.dbsize() == before
    raw_redis.flushall()  # no test leaves such a thing behind


async def test_an_address_of_something_else_ends_in_a_sentence(
    redis_url: str, room_service: RoomService
) -> None:
    """Another server's port and a database that isn't there are an operator's slips."""
    web = room_service.url.replace("http://", "redis://").replace("ws://", "redis://")
    told = await Operator(web).says("ps")
    assert (told.status, "isn't Redis" in told.text) == (2, True)
    told = await Operator(redis_url.replace("db=0", "db=77")).says("ps")
    assert (told.status, "no database of this number" in told.text) == (2, True)
