"""set_node_admin: an operator closes a node to new sessions, or opens it again."""

from __future__ import annotations

from tests.support.scenario import START_MS, World, sid

T = START_MS


def drain(world: World, move_in_ms: int | str = "") -> None:
    """Close the node; those that it holds move after a while, if that is named."""
    order = world.order("n1", "draining", move_in_ms=move_in_ms)
    assert world.run("set_node_admin", **order)[0] == "set"


def test_a_drained_node_is_given_nothing_from_this_call_on(world: World) -> None:
    """What it holds stays and is told; what the node itself reports isn't touched."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    order = world.order("n1", "draining", order="first")
    assert world.call("set_node_admin", **order) == ("set", ["1"])
    assert world.changes == {
        "n:n1 admin": "draining",
        "n:n1 order": "first",
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
    drain(world)
    world.open("a", "b", "c")
    assert world.call("set_node_admin", **world.order("n1", "open")) == ("set", ["0"])
    assert (world.line(), world.slots()) == ("c", ["a", "b"])
    assert world.fact("n:n1", "admin") == "open"


def test_another_life_of_the_node_stays_drained(world: World) -> None:
    """A restart isn't an operator's word, neither a quick one nor one after its death."""
    world.add_node()
    drain(world)
    world.kill("n1")
    world.add_node("n1", boot_id="boot-2")
    world.beat()
    world.open("a")
    assert (world.free(), world.state("a")) == ([], "queued")
    world.run("set_node_admin", **world.order("n1", "open"))
    assert world.state("a") == "assigned n1"


def test_a_dead_node_can_be_drained_before_it_comes_back(world: World) -> None:
    """Its record is kept for a day, and so is the word."""
    world.add_node()
    world.kill("n1")
    order = world.order("n1", "draining", order="first")
    assert world.call("set_node_admin", **order) == ("set", ["0"])
    assert world.changes == {
        "n:n1 admin": "draining",
        "n:n1 order": "first",
        "ev 3": "node_admin n1 draining",
    }


def test_it_doesn_t_end_what_keeps_a_node_from_serving(world: World) -> None:
    """Opened by an operator, it is still shutting down by its own word."""
    world.add_node()
    world.beat(draining=1)
    world.open("a")
    assert world.call("set_node_admin", **world.order("n1", "open")) == ("set", ["0"])
    assert (world.free(), world.state("a")) == ([], "queued")


def test_the_session_that_a_resume_places_is_hinted(world: World) -> None:
    """So that the node needn't wait for its next beat; it hears of the order itself, too."""
    world.add_node()
    drain(world)
    world.open("a")
    with world.listening("w:n1") as heard:
        world.run("set_node_admin", **world.order("n1", "open"))
        assert heard().split()[0] == "drain"
        assert heard() == f"assign {sid('a')} {world.epoch('a')}"


def test_an_unknown_node_is_gone(world: World) -> None:
    """Nothing is made for it."""
    assert world.call("set_node_admin", **world.order("n1", "draining")) == ("gone", [])
    assert world.changes == {}


def test_an_order_on_an_older_sight_changes_nothing(world: World) -> None:
    """Two operators: whoever comes second sees first what the other one did."""
    world.add_node()
    seen = world.order("n1", "draining", move_in_ms=9_000, order="second")
    drain(world)
    assert world.call("set_node_admin", **seen) == ("changed", [])
    assert world.changes == {}


def test_an_order_that_is_repeated_late_is_not_given_again(world: World) -> None:
    """Its answer was lost: the countdown isn't put off, and a resume since then isn't undone."""
    world.add_node()
    first = world.order("n1", "draining", move_in_ms=60_000)
    assert world.run("set_node_admin", **first)[0] == "set"
    world.pass_time(5)
    assert world.call("set_node_admin", **first)[0] == "set"
    assert "n:n1 drain_at" not in world.changes
    world.run("set_node_admin", **world.order("n1", "open"))
    assert world.call("set_node_admin", **first) == ("changed", [])


def test_a_live_drain_has_a_time_in_the_registry(world: World) -> None:
    """And an entry in the trail that says in how many seconds."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    order = world.order("n1", "draining", move_in_ms=120_000)
    assert world.call("set_node_admin", **order) == ("set", ["1"])
    assert world.changes["n:n1 drain_at"] == str(T + 120_000)
    assert world.changes["ev 7"] == "node_drain n1 120"


def test_a_resume_calls_the_countdown_off(world: World) -> None:
    """The node is open, and nobody is moved."""
    world.add_node()
    drain(world, 120_000)
    assert world.call("set_node_admin", **world.order("n1", "open"))[0] == "set"
    assert (world.changes["n:n1 admin"], world.changes["n:n1 drain_at"]) == ("open", None)
    assert world.beat() == ("ok", [[], [], [], []])


def test_a_plain_drain_takes_the_countdown_away_and_stays_closed(world: World) -> None:
    """The last order counts; the trail has it."""
    world.add_node()
    drain(world, 120_000)
    assert world.call("set_node_admin", **world.order("n1", "draining"))[0] == "set"
    assert world.changes["n:n1 drain_at"] is None
    assert world.changes["ev 3"] == "node_admin n1 draining"
    assert world.free() == []
