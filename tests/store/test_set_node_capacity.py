"""set_node_capacity: an operator allows a node fewer sessions than it could hold."""

from __future__ import annotations

from shared.store.replies import rows
from tests.support.scenario import World


def test_a_lower_limit_takes_nobody_off_and_lets_nobody_on(world: World) -> None:
    """What the node reports isn't touched, nor does its next beat lift the limit."""
    world.add_node(capacity=3)
    world.bring("a", "running")
    world.bring("b", "running")
    assert world.call("set_node_capacity", **world.limit("n1", 1, order="first")) == ("set", ["2"])
    assert world.changes == {
        "n:n1 admin_capacity": "1",
        "n:n1 order": "first",
        "free n1": None,
        "ev 12": "node_capacity n1 1",
    }
    world.open("c")
    world.beat()
    assert (world.slots(), world.line(), world.free()) == (["a", "b"], "c", [])
    assert world.fact("n:n1", "capacity") == "3"


def test_a_slot_below_the_limit_is_given_to_the_line_at_once(world: World) -> None:
    """By the same call that raises it, in order."""
    world.add_node(capacity=3)
    world.run("set_node_capacity", **world.limit("n1", 0))
    world.open("a", "b", "c")
    assert (world.line(), world.slots()) == ("abc", [])
    assert world.call("set_node_capacity", **world.limit("n1", 2)) == ("set", ["0"])
    assert (world.line(), world.slots()) == ("c", ["a", "b"])


def test_without_a_limit_the_node_s_own_word_counts(world: World) -> None:
    """A limit above it never did."""
    world.add_node(capacity=2)
    world.run("set_node_capacity", **world.limit("n1", 9))
    world.open("a", "b", "c")
    assert (world.line(), world.slots()) == ("c", ["a", "b"])
    assert world.call("set_node_capacity", **world.limit("n1", "")) == ("set", ["2"])
    assert world.changes["n:n1 admin_capacity"] is None
    assert (world.line(), world.slots()) == ("c", ["a", "b"])


def test_another_life_of_the_node_keeps_the_limit(world: World) -> None:
    """A restart isn't an operator's word."""
    world.add_node(capacity=2)
    world.run("set_node_capacity", **world.limit("n1", 1))
    world.kill("n1")
    world.add_node("n1", capacity=2, boot_id="boot-2")
    world.beat()
    world.open("a", "b")
    assert (world.slots(), world.line()) == (["a"], "b")


def test_everybody_who_counts_slots_counts_what_is_allowed(world: World) -> None:
    """The one snapshot, and the line that estimates are made from."""
    world.add_node(capacity=3)
    world.run("set_node_capacity", **world.limit("n1", 2))
    (node,) = rows(world.run("snapshot", waiting_shown=9)[1][0])
    assert node[5] == "2"
    line = world.run("read_line", most_waiting=9, most_tickets=9, most_residents=9)[1]
    assert line[4] == "2"


def test_an_unknown_node_is_gone(world: World) -> None:
    """Nothing is made for it."""
    assert world.call("set_node_capacity", **world.limit("n1", 1)) == ("gone", [])
    assert world.changes == {}


def test_an_order_on_an_older_sight_changes_nothing(world: World) -> None:
    """Orders of both kinds are of one series."""
    world.add_node()
    seen = world.limit("n1", 3)
    world.run("set_node_admin", **world.order("n1", "draining"))
    assert world.call("set_node_capacity", **seen) == ("changed", [])
    assert world.changes == {}
