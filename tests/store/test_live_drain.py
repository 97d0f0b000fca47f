"""Live drain: a beat names the end of the countdown, and what is given back keeps its place."""

from __future__ import annotations

from tests.support.scenario import World, listed, sid


def start(world: World, seconds: int = 120) -> None:
    """Have the sessions of ``n1`` moved in so many seconds."""
    order = world.order("n1", "draining", move_in_ms=seconds * 1000)
    assert world.run("set_node_admin", **order)[0] == "set"


def countdown(world: World, **named: int) -> str:
    """What the node's next beat says of it: ms, '' for none."""
    word, fields = world.beat("n1", **named)
    assert word == "ok"
    return str(fields[4]) if len(fields) > 4 else ""


def test_each_beat_names_the_time_that_is_left(world: World) -> None:
    """Also one that says nothing new; at the end it is 0, and stays so."""
    world.add_node()
    world.bring("a", "running")
    world.beat()
    assert countdown(world) == ""
    start(world, 12)
    told = [countdown(world)]
    for _ in range(7):
        world.pass_time(2)
        told.append(countdown(world))
    assert told == ["12000", "10000", "8000", "6000", "4000", "2000", "0", "0"]


def test_the_countdown_outlives_the_node(world: World) -> None:
    """It began another life meanwhile: what it was given before was moved, the rest of the time
    stands.
    """
    life = world.add_node()
    world.bring("a", "running")
    start(world)
    world.run("retire_node", node_id="n1", incarnation=life.incarnation)
    assert world.state("a") == "queued"
    world.pass_time(20)
    world.add_node("n1", boot_id="boot-2")
    assert countdown(world) == "100000"
    assert world.state("a") == "queued"


def test_nobody_is_moved_in_a_grace(world: World) -> None:
    """Another run of the server: the registry may have lost the resume that was given since."""
    world.add_node()
    world.bring("a", "running")
    start(world, 3)
    world.pass_time(3)
    world.restart()
    assert countdown(world) == "1"
    for _ in range(5):
        world.pass_time(2)
        world.beat()
    assert countdown(world) == "0"


def test_a_step_of_the_clock_moves_nobody(world: World) -> None:
    """It counts in registry time (R13)."""
    world.add_node()
    start(world, 120)
    world.step_clock(3600)
    assert countdown(world) == "118000"


def test_a_moved_session_costs_nothing_and_is_first_in_line(world: World) -> None:
    """Old ticket, no count, no strike, and never back to this node while it is drained."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.open("b")
    start(world, 0)
    world.open("c", "d")
    ticket = world.session("a").ticket
    given = world.giving("a", "node_drained", capacity=2)
    assert world.call("give_back", **given)[0] == "returned"
    assert world.line() == "acd"
    assert (world.session("a").ticket, world.count("a")) == (ticket, 0)
    assert world.session("a").returned_because == "node_drained"
    assert world.fact("n:n1", "strikes") == "0"
    world.add_node("n2")
    assert (world.state("a"), world.line()) == ("assigned n2", "cd")


def test_what_a_drained_node_still_cleans_up_takes_a_slot(world: World) -> None:
    """It lists the session until nothing is left: resumed meanwhile, it isn't overfilled."""
    world.add_node(capacity=1)
    world.bring("a", "running")
    epoch = world.epoch("a")
    start(world, 0)
    world.run("give_back", **world.giving("a", "node_drained", capacity=1))
    world.run("set_node_admin", **world.order("n1", "open"))
    assert (world.state("a"), world.free()) == ("queued", [])
    word, fields = world.beat("n1", residents=listed(("a", epoch)))
    assert (word, fields[2]) == ("ok", [[sid("a"), str(epoch), "fenced"]])
    assert world.state("a") == "queued"
    world.beat("n1")
    assert world.state("a") == "assigned n1"


def test_a_session_that_ends_anyway_ends(world: World) -> None:
    """It was asked to stop before it could be moved."""
    world.add_node()
    world.bring("a", "running")
    start(world, 0)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.call("give_back", **world.giving("a", "node_drained"))[0] == "ended"
    assert world.session("a").state == "closed"
