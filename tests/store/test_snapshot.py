"""snapshot: one pool at one instant."""

from __future__ import annotations

from shared.store import replies
from tests.support.scenario import World, sid


def test_an_empty_pool(world: World) -> None:
    """Zeros, and nothing is made."""
    reply = world.call("snapshot", waiting_shown=100)
    assert reply == ("ok", [[], [], [], "0", "0", []])
    assert world.changes == {}


def test_all_counts_are_of_one_instant(world: World) -> None:
    """Nodes with their slots, sessions by state, the head of the line, totals."""
    profile = '{"service":"w.py","mode":"bidirectional","host":"h","pid":7,"release":"1"}'
    world.add_node("n1", capacity=3, profile=profile, start_ms=5_000)
    world.bring("a", "running")
    world.bring("b", "starting_pipeline", d_starting=1_000)
    world.bring("c", "running")
    world.run("cancel_session", session_id=sid("c"), reason="client_stop")
    world.beat(capacity=1)
    world.pass_time(5)
    world.run("sweep_deadlines", budget=64)
    world.open("d", "e")
    world.pass_time(2)
    word, (nodes, states, waiting, queued, oldest_ms, totals) = world.call(
        "snapshot", waiting_shown=2
    )
    assert word == "ok"
    (node,) = (replies.node(row) for row in replies.rows(nodes))
    assert (node.node_id, node.capacity, node.used, node.quarantined) == ("n1", 1, 3, 1)
    assert (node.state, node.judged, node.draining, node.media_ok) == ("busy", "ok", False, True)
    assert (node.beat_age_s, node.profile.service, node.profile.start_timeout_s) == (7, "w.py", 5)
    assert dict(replies.pairs(states)) == {"running": 1, "draining": 1, "queued": 3}
    assert (waiting, queued, oldest_ms) == ([sid("b"), sid("d")], "3", "6999")
    told = dict(replies.pairs(totals))
    assert (told["opened"], told["assigned"], told["returned_start_timeout"]) == (5, 3, 1)
    assert world.changes == {}


def test_the_oldest_wait_is_never_negative(world: World) -> None:
    """The wall clock stepped back behind the ticket."""
    world.open("a")
    world.step_clock(-3600)
    word, (_, _, _, _, oldest_ms, _) = world.call("snapshot", waiting_shown=100)
    assert (word, oldest_ms) == ("ok", "0")
