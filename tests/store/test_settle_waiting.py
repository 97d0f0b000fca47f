"""settle_waiting: a silent client was looked for in its room (R10)."""

from __future__ import annotations

from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = START_MS


def suspected(world: World) -> dict[str, str | int | bytes]:
    """Let a waiting session fall silent; returns what its looker quotes."""
    world.open("a", "b", d_queued=60_000)
    world.pass_time(60)
    world.run("touch_sessions", session_ids=sid("b"), replica="")
    _, (_, _, rows) = world.run("sweep_deadlines", budget=64)
    (suspect,) = replies.suspects(rows)
    return {
        "session_id": suspect.session_id,
        "version": suspect.version,
        "lease": suspect.lease_ms,
    }


def test_nobody_in_the_room_gives_up_the_place(world: World) -> None:
    """Abandoned, with a reason of its own; the line moves up."""
    seen = suspected(world)
    assert world.call("settle_waiting", **seen, present=0) == ("abandoned", [])
    assert (world.session("a").state, world.session("a").reason) == ("expired", "queue_abandoned")
    assert (world.line(), world.session("b").position) == ("b", 1)


def test_a_client_in_the_room_keeps_it(world: World) -> None:
    """With a full lease from now on."""
    seen = suspected(world)
    world.pass_time(2)
    assert world.call("settle_waiting", **seen, present=1) == ("extended", [])
    assert world.changes["s:a t_queued"] == str(T + 122_000)
    assert world.line() == "ab"


def test_a_sign_of_life_meanwhile_wins(world: World) -> None:
    """It asked while somebody looked for it: what was found in the room is old."""
    seen = suspected(world)
    world.run("touch_sessions", session_ids=sid("a"), replica="")
    assert world.call("settle_waiting", **seen, present=0) == ("moved", [])
    assert world.changes == {}


def test_a_change_meanwhile_wins(world: World) -> None:
    """It was served, or came back to the line: another story."""
    seen = suspected(world)
    world.add_node("n1")
    assert world.call("settle_waiting", **seen, present=0)[0] == "moved"
    world.accept("a")
    world.run("give_back", **world.giving("a", "node_shutdown"))
    assert world.call("settle_waiting", **seen, present=0)[0] == "moved"
    assert world.state("a") == "queued"


def test_only_the_last_asked_is_heard(world: World) -> None:
    """The first looker was so slow that another one was asked."""
    seen = suspected(world)
    world.pass_time(10)
    world.run("sweep_deadlines", budget=64)
    assert world.call("settle_waiting", **seen, present=0)[0] == "moved"
    assert world.line() == "ab"


def test_a_return_to_the_line_grants_a_full_lease(world: World) -> None:
    """Whoever was served was there; its client may be silent anew."""
    world.add_node("n1")
    world.bring("a", "running", d_queued=60_000)
    world.pass_time(500)
    world.run("give_back", **world.giving("a", "node_shutdown"))
    assert world.fact(f"s:{sid('a')}", "t_queued") == str(T + 560_000)


def test_an_unknown_session_is_gone(world: World) -> None:
    """Nothing is made."""
    reply = world.call("settle_waiting", session_id=sid("x"), version=1, lease=1, present=0)
    assert reply == ("gone", [])
    assert world.changes == {}
