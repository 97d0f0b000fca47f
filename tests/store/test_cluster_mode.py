"""Does every script stay in its slot?

A server in cluster mode stops one that doesn't. It takes over a second to agree with itself, so one
test does it all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from shared.store.scripts import all_names
from tests.support.redis_server import RawRedis, StartRedis
from tests.support.scenario import World, sid
from tests.support.wait import wait_until_sync


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
    world = World(cluster)
    life = world.add_node(capacity=2)
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=99)
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    world.bring("a", "running", **key)
    world.bring("b", "joining_room")
    world.open("c", "d")
    world.beat()
    world.run("note_first_frame", **world.owner("a"))
    world.run("rebase_epoch", **world.owner("a"), seen=world.epoch("a") + 1)
    world.run("set_node_admin", node_id="n1", admin="open")
    world.run("inspect", session_ids=sid("a"), node_ids="n1")
    world.run("touch_sessions", session_ids=sid("c"), replica="r1")
    world.run("read_line", most_waiting=9, most_residents=9)
    world.session("c")
    world.run("settle_waiting", session_id=sid("c"), version=1, lease=1, present=1)
    world.run("note_estimate", session_id=sid("c"), middle_ms=2, low_ms=1, high_ms=3)
    world.open("e", identity_hash="ab12", most_waiting=1)
    world.run("cancel_waiting", session_id=sid("e"), reason="admin")
    for place in ("q", "n:n1", "ended"):
        world.run("list_sessions", place=place, after="0", count=9)
    world.run("give_back", **world.giving("b", "join_failed", capacity=1))
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.run("end_session", **world.owner("a"), reason="completed", error="late")
    world.pass_time(7)
    world.run("sweep_deadlines", budget=64)
    world.run("snapshot", waiting_shown=9)
    world.kill("n1")
    bundle = world.bundle("b")
    second = world.add_node("n1", boot_id="boot-2", previous=life.incarnation)
    world.run("retire_node", node_id="n1", incarnation=second.incarnation)
    assert world.line() == "bcd"
    third = world.add_node("n2")
    claim = world.claim(third.node_id, "b", world.epoch("b") + 1, bundle)
    assert world.run("adopt_session", **claim)[0] == "adopted"
    assert world.called == set(all_names())
