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
from tests.support.operator import open_sessions
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import StartRedis


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
