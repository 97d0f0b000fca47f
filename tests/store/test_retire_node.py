"""retire_node: a clean goodbye."""

from __future__ import annotations

import pytest

from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_an_empty_node_leaves(world: World) -> None:
    """No lease is left to wait for; its record can be read for a day."""
    life = world.add_node()
    reply = world.call("retire_node", node_id="n1", incarnation=life.incarnation)
    assert reply == ("retired", [])
    assert world.changes == {
        "nodes n1": None,
        "free n1": None,
        "n:n1 state": "dead",
        "n:n1 ttl": "86400",
        "ev 2": "node_retired n1",
    }


def test_what_it_still_held_goes_elsewhere(world: World) -> None:
    """Uncounted, with old tickets, and served in the same step where there is room."""
    life = world.add_node("n1", capacity=3)
    world.bring("a", "running")
    world.bring("b", "assigned")
    world.bring("c", "running")
    world.run("cancel_session", session_id=sid("c"), reason="client_stop")
    world.add_node("n2")
    world.call("retire_node", node_id="n1", incarnation=life.incarnation)
    states = [world.state(letter) for letter in "abc"]
    assert states == ["assigned n2", "queued", "closed n1"]
    assert [world.count(letter) for letter in "ab"] == [0, 0]
    assert world.slots("n1") == []


def test_it_isn_t_declared_dead_afterwards(world: World) -> None:
    """A goodbye is no death: no strike, nothing in the sweep's answer."""
    life = world.add_node()
    world.run("retire_node", node_id="n1", incarnation=life.incarnation)
    world.pass_time(60)
    assert world.call("sweep_nodes", budget=64) == ("done", [[], [], []])


@pytest.mark.parametrize("node_id", ["n1", "n2"])
def test_a_former_life_can_t_retire_its_successor(world: World, node_id: str) -> None:
    """Wrong incarnation or unknown node: nothing happens."""
    life = world.add_node()
    wrong: dict[str, str | int | bytes] = {"node_id": node_id, "incarnation": life.incarnation - 1}
    assert world.call("retire_node", **wrong) == ("gone", [])
    assert world.changes == {}


def test_a_dead_node_has_nothing_to_retire(world: World) -> None:
    """It froze through its death and says goodbye late."""
    life = world.add_node()
    world.kill("n1")
    assert world.call("retire_node", node_id="n1", incarnation=life.incarnation) == ("gone", [])
    assert world.changes == {}
