"""For how long did people see nothing: a start, a lost stage, an empty slot?"""

from __future__ import annotations

from typing import NamedTuple

from shared.durations import histogram
from shared.store import replies
from tests.support.scenario import World, sid

DONE = {"reason": "completed", "error": ""}


class Counted(NamedTuple):
    """How often, and for how many seconds together."""

    times: int
    sum_s: float


def counted(world: World, name: str) -> Counted:
    """Return what any replica would tell of these durations."""
    _, (*_, flat) = world.run("snapshot", waiting_shown=0)
    told = histogram(dict(replies.pairs(flat)), name)
    return Counted(told.count, told.sum_s)


def play(world: World, letter: str) -> None:
    """Lead the session to its first frame on the node that has it."""
    world.bring(letter, "running")
    assert world.run("note_first_frame", **world.frame(letter))[0] == "noted"


def let_pass(world: World, seconds: float, *nodes: str) -> None:
    """Let time pass while nodes beat, as live ones do."""
    for _ in range(int(seconds // 5)):
        world.pass_time(5)
        for node_id in nodes or ("n1",):
            world.beat(node_id)
    world.pass_time(seconds % 5)


NEVER = Counted(0, 0)


def test_a_start_lasts_from_the_slot_to_the_first_frame(world: World) -> None:
    """The time in line isn't part of it, and telling it again counts nothing."""
    world.open("a")
    world.pass_time(30)
    world.add_node()
    world.pass_time(4)
    play(world, "a")
    world.pass_time(9)
    assert world.run("note_first_frame", **world.frame("a"))[0] == "already"
    assert counted(world, "start") == (1, 4)
    assert counted(world, "recovery") == NEVER


def test_a_death_lasts_from_the_last_beat_to_the_next_frame(world: World) -> None:
    """Silence, waiting and the new start are all of it; it is no start of its own."""
    world.add_node("n1")
    play(world, "a")
    world.pass_time(60)
    world.beat("n1")
    world.kill("n1")
    world.pass_time(3)
    world.add_node("n2")
    world.pass_time(2)
    play(world, "a")
    assert counted(world, "kill") == (1, 15)
    assert counted(world, "recovery") == (1, 15)
    assert counted(world, "start").times == 1


def test_a_move_is_a_recovery_but_no_death(world: World) -> None:
    """From the last frame on the old node to the first one on the new."""
    world.add_node("n1")
    play(world, "a")
    world.add_node("n2")
    let_pass(world, 10, "n1", "n2")
    world.run("give_back", **world.giving("a", "node_drained", unplayed_ms=500))
    world.pass_time(1)
    play(world, "a")
    assert counted(world, "recovery") == (1, 1.5)
    assert counted(world, "kill") == NEVER


def test_a_stage_that_is_lost_twice_before_it_is_back_was_lost_once(world: World) -> None:
    """The second node fails to start it: what the user missed goes on."""
    world.add_node("n1")
    play(world, "a")
    world.kill("n1")
    world.add_node("n2")
    world.bring("a", "joining_room")
    world.pass_time(5)
    world.run("give_back", **world.giving("a", "join_failed"))
    world.add_node("n3")
    play(world, "a")
    assert counted(world, "kill") == (1, 15)


def test_a_stage_that_is_lost_again_before_its_first_frame_was_lost_once(world: World) -> None:
    """The second node runs it and dies without having shown anything."""
    world.add_node("n1")
    play(world, "a")
    world.kill("n1")
    world.add_node("n2")
    world.bring("a", "running")
    world.kill("n2")
    world.add_node("n3")
    play(world, "a")
    assert counted(world, "kill") == (1, 20)


def test_who_never_saw_a_frame_has_lost_nothing(world: World) -> None:
    """Its node dies while the session starts: the start of the next node is all there is."""
    world.add_node("n1")
    world.bring("a", "starting_pipeline")
    world.kill("n1")
    world.add_node("n2")
    world.pass_time(2)
    play(world, "a")
    assert counted(world, "recovery") == NEVER
    assert counted(world, "start") == (1, 2)


def test_a_slot_is_idle_from_one_user_to_the_next_who_waits(world: World) -> None:
    """From the wish to end, through the clean-up, to the next one's first frame."""
    world.add_node()
    play(world, "a")
    world.open("b")
    let_pass(world, 10)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.pass_time(2)
    world.run("end_session", **world.owner("a"), **DONE)
    world.pass_time(3)
    play(world, "b")
    assert counted(world, "idle") == (1, 5)


def test_a_slot_that_nobody_waited_for_was_not_idle(world: World) -> None:
    """Who comes to an empty house finds a free slot: that is what it is there for."""
    world.add_node()
    play(world, "a")
    world.run("end_session", **world.owner("a"), **DONE)
    let_pass(world, 100)
    play(world, "b")
    assert counted(world, "idle") == NEVER
    assert world.fact("n:n1", "vacant") == ""


def test_a_slot_stays_idle_through_one_who_never_played(world: World) -> None:
    """The first of the line gives up during its start: the slot has been empty all along."""
    world.add_node()
    play(world, "a")
    world.open("b", "c")
    let_pass(world, 10)
    world.run("end_session", **world.owner("a"), **DONE)
    world.bring("b", "joining_room")
    world.pass_time(4)
    world.run("end_session", **world.owner("b"), **DONE)
    world.pass_time(1)
    play(world, "c")
    assert counted(world, "idle") == (1, 5)


def test_each_empty_slot_counts_once(world: World) -> None:
    """Two end while nobody waits, a third while somebody does."""
    world.add_node(capacity=3)
    for letter in "abc":
        play(world, letter)
    for letter in "ab":
        world.run("end_session", **world.owner(letter), **DONE)
    world.pass_time(1)
    assert len(world.fact("n:n1", "vacant").split()) == 2
    for letter in "de":
        play(world, letter)
    world.open("f")
    let_pass(world, 7)
    world.run("end_session", **world.owner("c"), **DONE)
    world.pass_time(3)
    play(world, "f")
    assert counted(world, "idle") == (1, 3)
    assert world.fact("n:n1", "vacant") == ""


def test_a_node_that_was_drained_had_no_idle_slot(world: World) -> None:
    """An operator took it: that is told elsewhere."""
    world.add_node()
    play(world, "a")
    world.open("b", d_queued=0)
    world.run("set_node_admin", **world.order("n1", "draining"))
    world.run("end_session", **world.owner("a"), **DONE)
    let_pass(world, 600)
    world.run("set_node_admin", **world.order("n1", "open"))
    play(world, "b")
    assert counted(world, "idle") == NEVER


def test_a_slot_that_was_empty_when_its_node_was_drained_is_forgotten(world: World) -> None:
    """It was nobody's before, and is the operator's from then on."""
    world.add_node()
    play(world, "a")
    world.run("end_session", **world.owner("a"), **DONE)
    world.run("set_node_admin", **world.order("n1", "draining"))
    assert world.fact("n:n1", "vacant") == ""


def test_a_dead_node_leaves_no_idle_slot(world: World) -> None:
    """Its next life begins with slots that nobody has left."""
    world.add_node()
    play(world, "a")
    world.open("b", d_queued=0)
    world.kill("n1")
    assert world.fact("n:n1", "vacant") == ""
    world.pass_time(60)
    world.add_node(boot_id="another")
    play(world, "a")
    assert counted(world, "idle") == NEVER


def test_a_fresh_process_begins_without_idle_slots(world: World) -> None:
    """The one before gave its session back and went."""
    world.add_node()
    play(world, "a")
    life = world.lives["n1"]
    world.run("give_back", **world.giving("a", "node_shutdown"))
    assert world.fact("n:n1", "vacant")
    world.run("retire_node", node_id="n1", incarnation=life.incarnation)
    world.pass_time(30)
    world.add_node(boot_id="another")
    assert world.fact("n:n1", "vacant") == ""
    play(world, "a")
    assert counted(world, "idle") == NEVER


def test_a_loss_that_was_credited_is_as_long_as_any(world: World) -> None:
    """The user's limit has those seconds back; nothing was seen in them all the same."""
    world.add_node("n1")
    play(world, "a")
    world.add_node("n2")
    let_pass(world, 90, "n1", "n2")
    assert world.run("credit_session", **world.owner("a"), lost_ms=28_000)[0] == "credited"
    lost = world.giving("a", "media_lost", unplayed_ms=30_000, media_ok=0)
    assert world.run("give_back", **lost)[0] == "returned"
    play(world, "a")
    assert counted(world, "recovery") == (1, 30)


def test_a_slot_that_an_operator_withholds_is_no_gap(world: World) -> None:
    """Somebody waits, but it isn't there to be had."""
    world.add_node("n1", capacity=2)
    play(world, "a")
    play(world, "b")
    world.run("set_node_capacity", **world.limit("n1", 1))
    world.open("c", d_queued=0)
    world.pass_time(1)
    assert world.run("end_session", **world.owner("a"), **DONE)[0] == "ended"
    let_pass(world, 600, "n1")
    world.run("set_node_capacity", **world.limit("n1", ""))
    assert world.state("c") == "assigned n1"
    play(world, "c")
    assert counted(world, "idle") == NEVER


def test_a_loss_that_was_over_does_not_come_back_with_its_session(world: World) -> None:
    """The server's log ends between the loss and the first frame on the next node."""
    world.add_node("n1")
    play(world, "a")
    world.pass_time(60)
    world.beat("n1")
    world.kill("n1")
    remembered = world.raw.hgetall(f"gr:{{default}}:s:{sid('a')}")
    assert "lost" in remembered
    world.add_node("n2")
    play(world, "a")
    bundle, epoch = world.bundle("a"), world.epoch("a")
    world.raw.delete(f"gr:{{default}}:s:{sid('a')}", "gr:{default}:ns:n2")
    for field, value in remembered.items():
        world.raw.hset(f"gr:{{default}}:s:{sid('a')}", field, value)
    world.restart()
    world.beat("n2")
    assert world.run("adopt_session", **world.claim("n2", "a", epoch, bundle))[0] == "adopted"
    assert world.fact(f"s:{sid('a')}", "lost") == ""
