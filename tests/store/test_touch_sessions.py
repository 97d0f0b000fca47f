"""touch_sessions: how sessions stand, and a sign of life of those that wait."""

from __future__ import annotations

from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_asking_is_a_sign_of_life_of_those_that_wait(world: World) -> None:
    """The waiting lease begins anew; nothing else of the session changes."""
    world.open("a")
    world.pass_time(59)
    word, (fields,) = world.call("touch_sessions", session_ids=sid("a"), replica="")
    assert (word, replies.session(fields).position) == ("ok", 1)
    deadline = str(T + 119_000)
    assert world.changes == {"s:a t_queued": deadline, "dl a": deadline}


def test_the_waiting_lease_may_be_off(world: World) -> None:
    """Then a waiting session has no deadline, and asking sets none."""
    world.open("a", d_queued=0)
    assert world.call("touch_sessions", session_ids=sid("a"), replica="")[0] == "ok"
    assert world.changes == {}


def test_asking_doesn_t_touch_those_that_are_served(world: World) -> None:
    """Presence in the room is their sign of life."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(5)
    word, (fields,) = world.call("touch_sessions", session_ids=sid("a"), replica="")
    assert (word, replies.session(fields).state) == ("ok", "running")
    assert world.changes == {}


def test_many_are_asked_for_at_once(world: World) -> None:
    """Unknown ones are left out, and none is made."""
    world.open("a", "b")
    word, found = world.call(
        "touch_sessions", session_ids=f"{sid('b')} {sid('x')} {sid('a')}", replica=""
    )
    assert word == "ok"
    assert [replies.session(one).session_id for one in found] == [sid("b"), sid("a")]


def test_places_move_up(world: World) -> None:
    """The place is rank + 1 at the moment of asking: no holes, no doubles."""
    world.open("a", "b", "c")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    asked = f"{sid('a')} {sid('b')} {sid('c')}"
    _, found = world.call("touch_sessions", session_ids=asked, replica="")
    assert [replies.session(one).position for one in found] == [None, 1, 2]


def test_a_replica_with_a_follower_is_told_of_every_change(world: World) -> None:
    """A hint on its own channel names the session, whatever script changed it."""
    world.open("a")
    world.call("touch_sessions", session_ids=sid("a"), replica="r1")
    assert world.changes == {"s:a watch": "r1"}
    with world.listening("r:r1") as heard:
        world.add_node()
        assert heard() == sid("a")
        world.accept("a")
        assert heard() == sid("a")


def test_the_last_three_replicas_are_told(world: World) -> None:
    """A client may be at home on several; a replica that is gone is forgotten by and by."""
    world.open("a")
    for name in ("r1", "r2", "r3", "r2", "r4"):
        world.call("touch_sessions", session_ids=sid("a"), replica=name)
    assert world.fact(f"s:{sid('a')}", "watch") == "r4 r3 r2"


def test_nobody_is_told_of_what_can_t_change_any_more(world: World) -> None:
    """An ended session remembers no replica; one that drains still does."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.call("touch_sessions", session_ids=sid("a"), replica="r1")
    assert world.changes == {"s:a watch": "r1"}
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    world.call("touch_sessions", session_ids=sid("a"), replica="r2")
    assert world.changes == {}
