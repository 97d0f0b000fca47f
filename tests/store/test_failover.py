"""What happens when the server is another run of itself, and may have lost its last writes (R6)?

A lease is 10 s here: the grace lasts as long, and dispatch is held for at least 4 s of it.
"""

from __future__ import annotations

import json

from tests.support.scenario import World, listed, sid

ENDED = {"reason": "completed", "error": ""}


def sweep(world: World) -> None:
    """Both sweeps, as a replica does each second."""
    world.run("sweep_nodes", budget=64)
    world.run("sweep_deadlines", budget=64)


def restart(world: World) -> None:
    """Another run of the server, noticed by the next call that writes."""
    world.restart()
    sweep(world)


def test_an_empty_registry_has_nothing_to_wait_for(world: World) -> None:
    """The first call of all notes the run and holds nothing."""
    world.open("a")
    assert world.fact("ctr", "gen") == "1"
    assert len(world.fact("ctr", "run")) == 40
    world.add_node()
    assert world.state("a") == "assigned n1"


def test_nothing_expires_for_one_lease(world: World) -> None:
    """Neither a silent node nor any limit of a session; after it, all that is still due."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "starting_pipeline", d_starting=1_000)
    world.pass_time(9.9)
    restart(world)
    world.pass_time(9.9)
    sweep(world)
    assert (world.state("a"), world.state("b")) == ("running n1", "starting_pipeline n1")
    world.pass_time(0.1)
    sweep(world)
    assert (world.state("a"), world.state("b"), world.line()) == ("queued", "queued", "ab")


def test_nobody_is_served_until_every_node_has_beaten(world: World) -> None:
    """One may hold what the registry has lost; those who open meanwhile stand in line."""
    for node in ("n1", "n2"):
        world.add_node(node)
    restart(world)
    assert world.free() == []
    world.open("a")
    world.pass_time(4)
    world.beat("n1")
    assert (world.free(), world.line()) == (["n1"], "a")
    world.beat("n2")
    assert (world.line(), world.state("a")) == ("", "assigned n1")


def test_nobody_is_served_before_two_beats_may_have_come(world: World) -> None:
    """What a beat makes known is adopted by the next; then the hold is over at once."""
    world.add_node()
    restart(world)
    world.open("a")
    world.beat()
    world.pass_time(3.9)
    world.beat()
    assert world.line() == "a"
    world.pass_time(0.1)
    sweep(world)
    assert world.state("a") == "assigned n1"
    assert world.fact("ctr", "hold") == ""


def test_the_hold_ends_with_the_grace(world: World) -> None:
    """A node that never beats again doesn't stop the line for longer than a lease."""
    world.add_node("n1")
    world.add_node("n2")
    restart(world)
    world.open("a")
    for _ in range(4):
        world.pass_time(2)
        world.beat("n1")
    assert world.line() == "a"
    world.pass_time(2)
    world.beat("n1")
    assert world.state("a") == "assigned n1"


def test_a_node_serves_again_after_it_has_beaten(world: World) -> None:
    """Not before, even if all else is settled."""
    world.add_node("n1")
    world.add_node("n2")
    restart(world)
    world.pass_time(6)
    world.beat("n2")
    world.pass_time(4)
    world.run("sweep_deadlines", budget=64)
    assert world.free() == ["n2"]
    world.beat("n1")
    assert world.free() == ["n1", "n2"]


def test_a_held_line_takes_no_one_who_can_t_wait(world: World) -> None:
    """Served at once means: now; with a line that is switched off it is refused."""
    world.add_node()
    restart(world)
    world.beat()
    assert world.run("open_session", **world.opening("a", queue_size=0)) == ("full", [])
    assert world.run("open_session", **world.opening("a", queue_size=1))[0] == "created"


def test_the_first_who_comes_after_a_restart_isn_t_served_at_once(world: World) -> None:
    """What stood in ``free`` is of the run before: with a line that is off it is refused."""
    world.add_node()
    world.restart()
    assert world.run("open_session", **world.opening("a", queue_size=0)) == ("full", [])
    assert world.free() == []
    assert world.run("open_session", **world.opening("a", queue_size=1))[0] == "created"
    assert world.line() == "a"


def test_the_same_run_changes_nothing(world: World) -> None:
    """No second grace while the first one runs, and none without cause."""
    world.add_node()
    restart(world)
    grace = world.fact("ctr", "grace")
    world.pass_time(5)
    sweep(world)
    assert (world.fact("ctr", "grace"), world.fact("ctr", "gen")) == (grace, "2")


def test_what_a_node_doesn_t_list_in_a_grace_may_be_elsewhere(world: World) -> None:
    """Returned at once it would get an epoch above that of whoever plays it."""
    life = world.add_node()
    world.beat()
    world.bring("a", "running")
    restart(world)
    life.residents.clear()
    world.beat()
    assert world.state("a") == "running n1"
    for _ in range(5):
        world.pass_time(2)
        world.beat()
    assert (world.session("a").attempt, world.session("a").returned_because) == (2, "node_lost_it")


def test_nor_is_it_returned_when_the_node_registers_in_a_grace(world: World) -> None:
    """It lost this session by its own word; a beat after the grace says so again."""
    life = world.add_node()
    world.beat(stamp=50)
    world.bring("a", "running")
    restart(world)
    life.residents.clear()
    again = world.registration("n1", boot_id="boot-2", previous=life.incarnation)
    life.incarnation = int(str(world.run("register_node", **again)[1][0]))
    assert (world.state("a"), world.slots()) == ("running n1", ["a"])
    for _ in range(5):
        world.pass_time(2)
        world.beat()
    assert (world.session("a").attempt, world.session("a").returned_because) == (2, "node_lost_it")


def test_an_end_that_was_lost_is_told_again(world: World) -> None:
    """The record came back on another node, from before it moved; the beat says how it ended."""
    world.add_node("n1")
    world.add_node("n2")
    world.bring("a", "running")
    restart(world)
    later = world.epoch("a") + 5
    world.beat("n2", ended=json.dumps([[sid("a"), str(later), "completed"]]))
    assert (world.state("a"), world.slots("n1")) == ("closed n1", [])
    assert world.beat("n1") == ("ok", [[], [], [[sid("a"), str(world.epoch("a")), "fenced"]], []])


def test_numbers_seen_in_a_beat_are_never_issued_again(world: World) -> None:
    """An epoch whose issue was lost, though the clock was set back since (R5)."""
    world.add_node(capacity=2)
    seen = world.now_ms + 3_600_000
    world.beat(residents=listed(("x", seen)))
    world.open("a")
    assert world.epoch("a") > seen


def test_numbers_seen_at_a_registration_are_never_issued_again(world: World) -> None:
    """Incarnations as well."""
    seen = world.now_ms + 3_600_000
    told = world.registration("n1", capacity=2, previous=seen, residents=listed(("x", seen)))
    word, (incarnation, _) = world.run("register_node", **told)
    assert (word, int(str(incarnation)) > seen) == ("registered", True)
    world.open("a")
    assert world.epoch("a") > seen
