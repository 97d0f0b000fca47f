"""set_node_admin: an operator closes a node to new sessions, or opens it again."""

from __future__ import annotations

from tests.support.scenario import START_MS, World, sid

T = START_MS
DRAIN = {"node_id": "n1", "admin": "draining"}
RESUME = {"node_id": "n1", "admin": "open"}


def test_a_drained_node_is_given_nothing_from_this_call_on(world: World) -> None:
    """What it holds stays and is told; what the node itself reports isn't touched."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    assert world.call("set_node_admin", **DRAIN) == ("set", ["1"])
    assert world.changes == {
        "n:n1 admin": "draining",
        "free n1": None,
        "ev 7": "node_admin n1 draining",
    }
    world.open("b")
    assert (world.state("a"), world.state("b")) == ("running n1", "queued")
    world.beat()
    assert (world.free(), world.line()) == ([], "b")


def test_a_resumed_node_serves_the_line_at_once(world: World) -> None:
    """In order, as far as its slots go."""
    world.add_node(capacity=2)
    world.run("set_node_admin", **DRAIN)
    world.open("a", "b", "c")
    assert world.call("set_node_admin", **RESUME) == ("set", ["0"])
    assert (world.line(), world.slots()) == ("c", ["a", "b"])
    assert world.fact("n:n1", "admin") == "open"


def test_another_life_of_the_node_stays_drained(world: World) -> None:
    """A restart isn't an operator's word, neither a quick one nor one after its death."""
    world.add_node()
    world.run("set_node_admin", **DRAIN)
    world.kill("n1")
    world.add_node("n1", boot_id="boot-2")
    world.beat()
    world.open("a")
    assert (world.free(), world.state("a")) == ([], "queued")
    world.run("set_node_admin", **RESUME)
    assert world.state("a") == "assigned n1"


def test_a_dead_node_can_be_drained_before_it_comes_back(world: World) -> None:
    """Its record is kept for a day, and so is the word."""
    world.add_node()
    world.kill("n1")
    assert world.call("set_node_admin", **DRAIN) == ("set", ["0"])
    assert world.changes == {"n:n1 admin": "draining", "ev 3": "node_admin n1 draining"}


def test_it_doesn_t_end_what_keeps_a_node_from_serving(world: World) -> None:
    """Opened by an operator, it is still shutting down by its own word."""
    world.add_node()
    world.beat(draining=1)
    world.open("a")
    assert world.call("set_node_admin", **RESUME) == ("set", ["0"])
    assert (world.free(), world.state("a")) == ([], "queued")


def test_the_session_that_a_resume_places_is_hinted(world: World) -> None:
    """So that the node needn't wait for its next beat."""
    world.add_node()
    world.run("set_node_admin", **DRAIN)
    world.open("a")
    with world.listening("w:n1") as heard:
        world.run("set_node_admin", **RESUME)
        assert heard() == f"assign {sid('a')} {world.epoch('a')}"


def test_an_unknown_node_is_gone(world: World) -> None:
    """Nothing is made for it."""
    assert world.call("set_node_admin", **DRAIN) == ("gone", [])
    assert world.changes == {}
