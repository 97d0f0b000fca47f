"""Does the list of keys tell whose a key is?"""

from __future__ import annotations

import sys

import pytest

from scripts import key_list
from shared.store import Registry
from shared.store.keys import prefix
from tests.support.redis_server import POOL, RawRedis


async def test_keys_are_grouped_and_strangers_named(
    registry: Registry,
    raw_redis: RawRedis,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Known keys are counted by kind; one without an owner is named and makes the status 1."""
    await registry.snapshot(POOL)
    raw_redis.zadd(f"{prefix(POOL)}q", {"somebody": 1})
    monkeypatch.setattr(sys, "argv", ["keys", redis_url])
    assert key_list.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["1", "q", "zset"] for line in told)
    raw_redis.set("stray", "1", ex=60)
    raw_redis.set(f"{prefix(POOL)}nodes", "not a zset", ex=60)
    assert key_list.main() == 1
    told = capsys.readouterr().out.splitlines()
    assert "no owner: stray" in told
    assert f"no owner: {prefix(POOL)}nodes" in told
    raw_redis.flushall()
