"""beat_node: a heartbeat renews the lease, and node and registry converge."""

from __future__ import annotations

import json

import pytest

from shared.store.scripts import Argument
from tests.support.scenario import START_MS, World, listed, sid

T = START_MS


def row(world: World, letter: str, *more: str) -> list[str]:
    """One assignment as a reply names it."""
    return [sid(letter), str(world.epoch(letter)), *more]


# The lease.


def test_a_beat_renews_the_lease(world: World) -> None:
    """All that an idle node's beat writes."""
    world.add_node()
    world.pass_time(2)
    told = world.call_once("beat_node", **world.beat_of("n1", state="busy"))
    assert told == ("ok", [[], [], [], []])
    assert world.changes == {
        "n:n1 stamp": "1",
        "n:n1 state": "busy",
        "n:n1 beat": str(T + 2_000),
        "n:n1 listed": "0",
        "n:n1 kept": "0",
        "nodes n1": str(T + 12_000),
        "ev 2": "node_busy n1",
    }


def test_a_beat_that_says_nothing_new_is_answered_in_a_word(world: World) -> None:
    """It owns what it lists, and nothing is to be done: see test_beat_settled.py."""
    world.add_node()
    world.bring("a", "running")
    assert world.run("beat_node", **world.beat_of("n1"))[0] == "ok"
    told = world.call_once("beat_node", **world.beat_of("n1"))
    assert told == ("same", [])


@pytest.mark.parametrize("stamp", [5, 4])
def test_beats_count_in_the_order_of_their_stamps(world: World, stamp: int) -> None:
    """One that was overtaken, or a second copy, is stale: even its lease isn't taken."""
    world.add_node()
    world.beat(stamp=5, capacity=3)
    world.pass_time(2)
    late = world.beat_of("n1", stamp=stamp, capacity=1)
    assert world.call("beat_node", **late) == ("stale", [])
    assert world.changes == {}


def test_silence_is_not_death(world: World) -> None:
    """The lease was over but nobody had said so: the beat revives it, and its sessions stay."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(15)
    assert world.beat() == ("ok", [[row(world, "a")], [], [], []])
    assert world.call("sweep_nodes", budget=64) == ("done", [[], [], []])
    assert world.state("a") == "running n1"


def test_an_unknown_node_registers_with_its_residents(world: World) -> None:
    """The registry lost the record: nobody took the sessions away."""
    world.add_node()
    world.raw.flushall()
    assert world.call("beat_node", **world.beat_of("n1")) == ("register", ["keep"])
    assert world.changes == {}


def test_a_life_above_the_record_registers_with_its_residents(world: World) -> None:
    """The registry lost its last writes, the registration among them."""
    life = world.add_node()
    newer = world.beat_of("n1", incarnation=life.incarnation + 1)
    assert world.call("beat_node", **newer) == ("register", ["keep"])
    assert world.changes == {}


def test_a_node_declared_dead_drops_its_residents(world: World) -> None:
    """They are back in line or on their way elsewhere."""
    world.add_node()
    world.bring("a", "running")
    world.kill("n1")
    assert world.call("beat_node", **world.beat_of("n1")) == ("register", ["drop"])
    assert world.changes == {}


def test_a_replaced_life_drops_its_residents(world: World) -> None:
    """Its successor's record isn't touched."""
    life = world.add_node()
    world.kill("n1")
    late = world.beat_of("n1", incarnation=life.incarnation)
    world.add_node("n1", boot_id="boot-2")
    assert world.call("beat_node", **late) == ("register", ["drop"])
    assert world.changes == {}


def test_a_dying_node_can_t_come_back_between_two_parts(world: World) -> None:
    """Some of its sessions are back in line; it gets no new ones and loses the others, too."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    world.pass_time(10)
    assert world.run("sweep_nodes", budget=1)[0] == "more"
    assert world.call("beat_node", **world.beat_of("n1")) == ("register", ["drop"])
    assert world.changes == {}
    assert (world.line(), world.slots(), world.free()) == ("a", ["b"], [])


# What a node can do.


@pytest.mark.parametrize(
    "unfit", [{"state": "loading"}, {"state": "error"}, {"draining": 1}, {"media_ok": 0}]
)
def test_an_unfit_node_is_given_nothing(world: World, unfit: dict[str, Argument]) -> None:
    """Until a beat says that it is fit again."""
    world.add_node()
    world.run("beat_node", **world.beat_of("n1", **unfit))
    world.open("a")
    assert (world.free(), world.state("a")) == ([], "queued")
    world.beat()
    assert world.state("a") == "assigned n1"


def test_capacity_below_what_is_used_evicts_nobody(world: World) -> None:
    """Slots that become empty are filled again only below the new capacity."""
    world.add_node(capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.open("d")
    world.beat(capacity=1)
    assert (world.slots(), world.free()) == (["a", "b", "c"], [])
    for letter in "ab":
        world.run("end_session", **world.owner(letter), reason="completed", error="")
        assert world.state("d") == "queued"
    world.run("end_session", **world.owner("c"), reason="completed", error="")
    assert world.state("d") == "assigned n1"


def test_a_struck_node_is_tried_again_after_its_rest(world: World) -> None:
    """The first beat after the rest brings it back into `free`, and serves the line."""
    world.add_node()
    world.raw.hset(f"{world.prefix}n:n1", "rest", T + 5_000)
    world.beat()
    world.open("a")
    assert (world.free(), world.state("a")) == ([], "queued")
    world.pass_time(5)
    world.beat()
    assert world.state("a") == "assigned n1"


# From the registry to the node.


def test_the_reply_delivers_what_is_assigned(world: World) -> None:
    """Pub/sub is only a hint: each beat repeats the to-do until the node lists it."""
    life = world.add_node(capacity=2)
    world.open("a", "b")
    both = [row(world, "a"), row(world, "b")]
    assert world.beat() == ("ok", [both, both, [], []])
    assert world.beat() == ("ok", [both, both, [], []])
    life.residents["a"] = world.epoch("a")
    assert world.beat() == ("ok", [both, [row(world, "b")], [], []])


def test_an_assignment_is_hinted_on_the_node_s_channel(world: World) -> None:
    """So that the next beat comes at once."""
    world.add_node()
    with world.listening("w:n1") as heard:
        world.open("a")
        assert heard() == f"assign {sid('a')} {world.epoch('a')}"


def test_a_beat_serves_the_line(world: World) -> None:
    """A node that became fit takes the head in the same step, and its reply says so."""
    world.add_node(state="loading")
    world.open("a")
    world.beat()
    assert world.state("a") == "assigned n1"
    assert world.beat() == ("ok", [[row(world, "a")], [row(world, "a")], [], []])


def test_the_kill_list_names_what_must_stop(world: World) -> None:
    """A draining session with its reason, over and over until the node has answered with `end`."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="admin")
    told = ("ok", [[row(world, "a")], [], [row(world, "a", "admin")], []])
    assert world.beat() == told
    assert world.beat() == told


def test_what_belongs_to_somebody_else_is_killed_as_fenced(world: World) -> None:
    """An old epoch, an ended session: only the leftovers here are cleaned."""
    world.add_node()
    world.bring("a", "running")
    world.open("b")
    world.run("cancel_session", session_id=sid("b"), reason="client_stop")
    residents = listed(("a", 1), ("b", 7), ("a", world.epoch("a")))
    assert world.beat(residents=residents) == (
        "ok",
        [[row(world, "a")], [], [[sid("a"), "1", "fenced"], [sid("b"), "7", "fenced"]], []],
    )
    assert world.state("a") == "running n1"


# From the node to the registry.


def test_a_session_that_the_node_lost_returns(world: World) -> None:
    """Accepted under an earlier stamp and missing now: it goes back to the line, counted once."""
    life = world.add_node()
    world.beat()
    world.bring("a", "running")
    life.residents.clear()
    world.pass_time(3)
    assert world.beat(state="error") == ("ok", [[], [], [], []])
    assert world.state("a") == "queued"
    record = world.session("a")
    assert (record.returned_because, record.attempt) == ("node_lost_it", 2)
    assert world.fact(f"s:{sid('a')}", "left") == "1800000"  # since the beat before it wasn't seen
    assert world.count("a") == 1


def test_a_session_that_was_just_accepted_can_t_be_missing(world: World) -> None:
    """Its snapshot was taken before the node knew of it; only a later stamp may miss it."""
    life = world.add_node()
    world.open("a")
    before = world.beat_of("n1")
    world.accept("a")
    assert world.run("beat_node", **before)[0] == "ok"
    assert world.state("a") == "joining_room n1"
    life.residents.clear()
    world.beat(state="error")
    assert world.state("a") == "queued"


def test_an_unaccepted_session_can_t_be_missing(world: World) -> None:
    """It is to-do until its accept limit fires."""
    world.add_node()
    world.open("a")
    for _ in range(3):
        world.beat()
    assert world.state("a") == "assigned n1"


def test_a_draining_session_that_the_node_lost_ends(world: World) -> None:
    """With the stored reason; a draining session never goes back."""
    life = world.add_node()
    world.beat()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    life.residents.clear()
    world.beat()
    assert (world.state("a"), world.slots()) == ("closed n1", [])


def test_an_end_whose_call_was_lost_arrives_with_the_beat(world: World) -> None:
    """Its slot goes on at once; the repetition in later beats changes nothing."""
    life = world.add_node()
    world.bring("a", "running")
    world.open("b")
    ended = json.dumps([[sid("a"), str(world.epoch("a")), "completed"]])
    life.residents.clear()
    world.call_once("beat_node", **world.beat_of("n1", ended=ended))
    assert world.changes["s:a state"] == "closed"
    assert world.changes["s:a reason"] == "completed"
    assert world.slots() == ["b"]
    world.call_once("beat_node", **world.beat_of("n1", ended=ended, state="idle"))
    assert world.changes == {"n:n1 stamp": "2"}


def test_an_end_of_an_old_epoch_ends_nothing(world: World) -> None:
    """The session is on the same node again by now."""
    world.add_node()
    world.bring("a", "running")
    ended = json.dumps([[sid("a"), "1", "completed"]])
    world.beat(ended=ended)
    assert world.state("a") == "running n1"


# The quarantine.


def timed_out(world: World) -> int:
    """Let a session's start limit take it from a node that still holds it; return its epoch."""
    world.bring("a", "starting_pipeline", d_starting=1_000)
    epoch = world.epoch("a")
    world.beat()
    world.pass_time(1)
    world.run("sweep_deadlines", budget=64)
    assert "!a" in world.slots()
    return epoch


def test_a_slot_taken_back_is_free_once_a_later_beat_doesn_t_list_it(world: World) -> None:
    """One beat may be on its way, taken before the node knew: the one after it counts."""
    life = world.add_node()
    timed_out(world)
    life.residents.clear()
    world.beat()
    assert world.slots() == ["!a"]
    world.beat()
    assert (world.slots(), world.state("a")) == (["a"], "assigned n1")


def test_the_node_is_told_to_clean_up_what_was_taken_back(world: World) -> None:
    """Else a runner that waits for its service would never hear of it."""
    world.add_node()
    epoch = timed_out(world)
    for _ in range(3):
        told = world.beat()
        assert told == ("ok", [[], [], [[sid("a"), str(epoch), "fenced"]], []])
        assert world.slots() == ["!a"]


def test_the_same_session_may_come_back_beside_its_own_leftovers(world: World) -> None:
    """Two slots, two epochs of one session on one node: each is told apart from the other."""
    life = world.add_node(capacity=2)
    old = timed_out(world)
    assert world.slots() == ["!a", "a"]
    new = world.epoch("a")
    both = listed(("a", old), ("a", new))
    todo_done = ("ok", [[row(world, "a")], [], [[sid("a"), str(old), "fenced"]], []])
    assert world.beat(residents=both) == todo_done
    life.residents["a"] = new
    world.accept("a")
    assert world.beat(residents=both) == todo_done
    other_order = listed(("a", new), ("a", old))
    assert world.beat(residents=other_order) == todo_done
    assert (world.slots(), world.state("a")) == (["!a", "a"], "joining_room n1")
    world.beat()
    assert (world.slots(), world.state("a")) == (["a"], "joining_room n1")
