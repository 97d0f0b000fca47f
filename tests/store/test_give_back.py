"""give_back: a node returns a session to the line, silent and out of the room by then."""

from __future__ import annotations

import pytest

from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_a_session_goes_back_with_its_old_ticket(world: World) -> None:
    """Everything that a return writes: old ticket, new epoch, no deadline of a resident."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(60)
    ticket, now = str(world.session("a").ticket), str(T + 60_000)
    given = world.giving("a", "node_shutdown")
    assert world.call("give_back", **given) == ("returned", [])
    deadline = str(T + 120_000)
    assert world.changes == {
        "q a": ticket,
        "ns:n1 a": None,
        "s:a state": "queued",
        "s:a node": "",
        "s:a avoid": "n1",
        "s:a epoch": now,
        "s:a attempt": "2",
        "s:a back": "node_shutdown",
        "s:a queued_rt": now,
        "s:a left": "1740000",
        "s:a acked": None,
        "s:a t_session": None,
        "s:a t_queued": deadline,
        "dl a": deadline,
        "s:a updated": now,
        "s:a ver": now,
        "n:n1 capacity": "0",
        "n:n1 vacant": now,
        "ctr epoch": now,
        "ctr version": now,
        "ctr n_returned_node_shutdown": "1",
        "ev 7": "returned a n1 node_shutdown",
    }


def test_it_is_fenced_afterwards(world: World) -> None:
    """The reply was lost and the call comes again: the slot isn't freed twice."""
    world.add_node()
    world.bring("a", "running")
    given = world.giving("a", "node_shutdown")
    world.call("give_back", **given)
    world.add_node("n2")
    assert world.call("give_back", **given) == ("fenced", [])
    assert world.changes == {}
    assert world.state("a") == "assigned n2"


def test_it_steps_onto_another_node_in_the_same_step(world: World) -> None:
    """The line is served at once, and not from the node that just lost it."""
    world.add_node("n1")
    world.add_node("n2")
    world.bring("a", "running")
    given = world.giving("a", "join_failed", capacity=1)
    assert world.call("give_back", **given) == ("returned", [])
    assert world.state("a") == "assigned n2"
    assert world.session("a").attempt == 2


def test_the_node_that_just_lost_it_is_taken_if_no_other_is_free(world: World) -> None:
    """It is avoided, though it would be first by load and name; but a slot is a slot."""
    world.add_node("n1")
    world.bring("a", "running")
    world.add_node("n2")
    lost = world.giving("a", "service_lost", capacity=1)
    assert world.call("give_back", **lost) == ("returned", [])
    assert world.state("a") == "assigned n2"
    lost = world.giving("a", "media_lost", capacity=1)
    world.open("b")
    assert world.state("b") == "assigned n1"
    assert world.call("give_back", **lost) == ("returned", [])
    assert world.state("a") == "assigned n2"


def test_returned_sessions_keep_their_order_ahead_of_newcomers(world: World) -> None:
    """Given back in whatever order, the older ticket is first."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    world.open("c")
    world.call("give_back", **world.giving("b", "node_shutdown"))
    world.call("give_back", **world.giving("a", "node_shutdown"))
    assert world.line() == "abc"


@pytest.mark.parametrize("field", ["capacity", "media_ok"])
def test_what_the_node_can_do_now_is_known_before_dispatch(world: World, field: str) -> None:
    """A node that can't serve isn't given the session that it gives back."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.call("give_back", **{**world.giving("a", "media_lost", capacity=2), field: 0})
    assert world.free() == []
    assert world.state("a") == "queued"


@pytest.mark.parametrize(
    ("why", "count"),
    [("node_shutdown", 0), ("media_lost", 0), ("join_failed", 2), ("service_lost", 2)],
)
def test_only_failures_count(world: World, why: str, count: int) -> None:
    """A shutdown costs the session nothing; a failed join or a lost service counts two."""
    world.add_node()
    world.bring("a", "running")
    world.call("give_back", **world.giving("a", why))
    assert world.count("a") == count


def test_seconds_without_a_picture_are_given_back(world: World) -> None:
    """The room was lost for half a minute before the node gave up: that isn't the user's loss."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(600)
    world.call_once("give_back", **world.giving("a", "media_lost", unplayed_ms=30_000))
    assert world.changes["s:a left"] == "1230000"


def test_what_was_credited_already_is_given_back_no_second_time(world: World) -> None:
    """Also where the node never heard that it was: of 30 s without a room 20 came as a credit."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(100)
    world.call("credit_session", **world.owner("a"), lost_ms=40_000)
    world.pass_time(500)
    world.call("credit_session", **world.owner("a"), lost_ms=60_000)
    silence = {"unplayed_ms": 30_000, "earlier_ms": 40_000}
    world.call_once("give_back", **world.giving("a", "media_lost", **silence))
    assert world.changes["s:a left"] == str(1_800_000 - 600_000 + 40_000 + 30_000)


def test_credit_for_earlier_losses_is_no_part_of_this_one(world: World) -> None:
    """40 s were lost before, and are given back on top of the 30 of now."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(600)
    world.call("credit_session", **world.owner("a"), lost_ms=40_000)
    silence = {"unplayed_ms": 30_000, "earlier_ms": 40_000}
    world.call_once("give_back", **world.giving("a", "media_lost", **silence))
    assert world.changes["s:a left"] == str(1_800_000 - 600_000 + 40_000 + 30_000)


def test_time_before_the_first_picture_is_given_back(world: World) -> None:
    """It never ran on that node: nothing of its limit is used."""
    world.add_node()
    world.bring("a", "starting_pipeline")
    world.pass_time(100)
    world.call_once("give_back", **world.giving("a", "join_failed", unplayed_ms=0))
    assert world.changes["s:a left"] == "1800000"


def test_a_failed_join_is_a_strike(world: World) -> None:
    """The node rests for five seconds, then serves again."""
    world.add_node()
    world.bring("a", "joining_room")
    world.call("give_back", **world.giving("a", "join_failed", capacity=1))
    assert world.changes["n:n1 strikes"] == "1"
    assert world.changes["n:n1 rest"] == str(T + 5_000)
    assert world.state("a") == "queued"
    world.lives["n1"].residents.clear()
    world.pass_time(4)
    world.beat()
    assert world.state("a") == "queued"
    world.pass_time(1)
    world.beat()
    assert world.state("a") == "assigned n1"


def test_the_third_count_of_two_ends_the_session(world: World) -> None:
    """A session that fails wherever it goes takes no fourth node down; the last cause is named."""
    for name in ("n1", "n2", "n3"):
        world.add_node(name)
        world.bring("a", "joining_room")
        reply = world.call("give_back", **world.giving("a", "join_failed"))
        world.pass_time(1)
    assert reply == ("ended", [])
    record = world.session("a")
    assert (record.state, record.reason, record.attempt) == ("failed", "join_timeout", 3)


def test_counts_are_forgotten_after_ten_minutes(world: World) -> None:
    """Three failures in half an hour are bad luck, not poison."""
    for name in ("n1", "n2", "n3"):
        world.add_node(name)
        world.bring("a", "joining_room", d_queued=0)
        assert world.call("give_back", **world.giving("a", "join_failed"))[0] == "returned"
        world.pass_time(600)
    assert world.count("a") == 2


def test_the_last_session_of_a_dead_service_isn_t_taken_for_alone(world: World) -> None:
    """They are given back one by one, yet they died together: one count each."""
    world.add_node(capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.beat(capacity=0)
    for letter in "abc":
        world.call("give_back", **world.giving(letter, "service_lost"))
    assert [world.count(letter) for letter in "abc"] == [1, 1, 1]


def test_the_next_death_is_counted_anew(world: World) -> None:
    """Once the node serves again, who was there before doesn't matter."""
    world.add_node(capacity=2)
    for letter in "ab":
        world.bring(letter, "running")
    world.call("give_back", **world.giving("b", "service_lost"))
    world.call("give_back", **world.giving("a", "service_lost"))
    world.lives["n1"].residents.clear()
    world.pass_time(5)
    world.beat()
    world.run("cancel_session", session_id=sid("b"), reason="client_stop")
    world.accept("a")
    world.call("give_back", **world.giving("a", "service_lost"))
    assert world.count("a") == 3


def test_who_was_starting_alone_in_a_dead_service_counts_two(world: World) -> None:
    """The one that was starting is the suspect; its mates count one."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "starting_pipeline")
    world.call("give_back", **world.giving("a", "service_lost"))
    world.call("give_back", **world.giving("b", "service_lost"))
    assert [world.count(letter) for letter in "ab"] == [1, 2]


def test_a_draining_session_ends_instead(world: World) -> None:
    """It was ending anyway: the stored reason, no way back into the line."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.call("give_back", **world.giving("a", "node_shutdown")) == ("ended", [])
    assert world.state("a") == "closed n1"
    assert world.slots() == []


@pytest.mark.parametrize("other", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}])
def test_anybody_but_the_owner_is_fenced(world: World, other: dict[str, str]) -> None:
    """Nothing changes, not even what the call says of capacity."""
    world.add_node()
    world.bring("a", "running")
    given = {**world.giving("a", "node_shutdown"), **other}
    assert world.call("give_back", **given) == ("fenced", [])
    assert world.changes == {}


def test_an_ended_session_isn_t_given_back(world: World) -> None:
    """Ended is absorbing."""
    world.add_node()
    world.bring("a", "running")
    given = world.giving("a", "node_shutdown")
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.call("give_back", **given) == ("fenced", [])
    assert world.changes == {}


def test_giving_back_frees_the_quarantined_slot(world: World) -> None:
    """The start limit took the session away already; now the node is done with it, too."""
    world.add_node()
    world.bring("a", "starting_pipeline", d_starting=3_000)
    given = world.giving("a", "service_lost")
    world.beat()
    world.pass_time(3)
    world.run("sweep_deadlines", budget=64)
    assert (world.state("a"), world.slots()) == ("queued", ["!a"])
    assert world.call_once("give_back", **given) == ("fenced", [])
    assert world.slots() == ["a"]
    assert world.state("a") == "assigned n1"


def test_a_node_that_was_opened_meanwhile_cleans_up_first(world: World) -> None:
    """It had the order to let its session move when the operator took that back."""
    world.add_node()
    world.bring("a", "running")
    assert world.call("give_back", **world.giving("a", "node_drained", capacity=1)) == (
        "returned",
        [],
    )
    assert (world.state("a"), world.free()) == ("queued", [])
    world.beat()
    assert world.state("a") == "assigned n1"
