"""Does every script stay in its slot?

A server in cluster mode stops one that doesn't. It takes over a second to agree with itself, so one
test does it all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.support.redis_server import RawRedis, StartRedis
from tests.support.scenario import World
from tests.support.wait import wait_until_sync
from tests.support.whole_life import live


@pytest.fixture
def cluster(start_redis: StartRedis) -> Iterator[RawRedis]:
    """One server in cluster mode that serves all slots."""
    with start_redis("--cluster-enabled", "yes").client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until_sync(lambda: _serves(client), "the cluster serves its slots")
        yield client


def _serves(client: RawRedis) -> bool:
    try:
        return client.get("any") is None
    except redis.exceptions.ClusterDownError:
        return False


def test_every_script_stays_in_its_slot(cluster: RawRedis) -> None:
    """One life of a pool, on a server that would notice; the `#!lua` line makes it watch."""
    with pytest.raises(redis.ResponseError, match="same slot"):
        cluster.eval("#!lua\nreturn redis.call('GET', 'elsewhere')", 1, "gr:{default}:")
    live(World(cluster))
