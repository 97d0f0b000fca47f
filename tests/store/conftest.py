"""Fixtures of the store level."""

from __future__ import annotations

import pytest

from tests.support.redis_server import RawRedis
from tests.support.scenario import World


@pytest.fixture
def world(raw_redis: RawRedis) -> World:
    """An empty pool with a hand-moved clock."""
    return World(raw_redis)
