"""What happens when somebody else writes to our registry, by hand or with another program?

No script gets past a key of another kind. So every call ends in one sentence, nothing crashes, and
all goes on once the key is gone.
"""

from __future__ import annotations

import pytest

from control_plane.app import Replica
from shared.states import SessionState
from shared.store import Registry
from tests.support.operator import Operator
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica import Client, assert_problem
from tests.support.running_node import running_node
from tests.support.wait import wait_until

NODES = f"gr:{{{POOL}}}:nodes"


async def test_the_planes_outlive_a_key_of_another_kind(
    redis_url: str, registry: Registry, raw_redis: RawRedis, replica: tuple[Replica, Client]
) -> None:
    """The node falls silent and registers again; the session goes on, somewhere."""
    _, api = replica
    async with running_node(redis_url, registry, node_ttl_s=4.0, beat_interval_s=0.2) as node:
        session_id, _ = await node.play()
        raw_redis.set(NODES, "mine")
        problem = assert_problem(await api.get("/v1/queue"), 503, "store_unavailable")
        assert "holds what Greenroom never wrote" in str(problem["message"])
        assert "greenroom audit" in str(problem["message"])
        lease = node.agent._parts.lease
        await wait_until(lambda: not lease.is_fresh(), "the node is silent", timeout_s=10)
        assert not node.task.done()
        assert (await api.create(identity="bob")).status_code < 500
        raw_redis.delete(NODES)

        async def plays() -> bool:
            record = await registry.read(session_id)
            return record.state is SessionState.RUNNING and lease.is_fresh()

        await wait_until(plays, "it plays again", timeout_s=30)
        assert (await api.get("/v1/queue")).status_code == 200


@pytest.mark.parametrize("key", ["nodes", "q", "free", "dl", "ctr"])
async def test_the_audit_names_the_key(operator: Operator, raw_redis: RawRedis, key: str) -> None:
    """And nothing else, for nothing else can be looked at."""
    raw_redis.set(f"gr:{{{POOL}}}:{key}", "mine")
    told = await operator.says("audit", "--json", "--again-after", "0")
    raw_redis.flushall()
    assert told.status == 1
    (difference,) = told.json["differences"]
    assert (difference["part"], difference["subject"]) == ("key", key)
    assert "somebody else wrote it" in difference["text"]
