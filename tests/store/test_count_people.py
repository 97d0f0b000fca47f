"""count_people: who is in the room while nobody plays there."""

from __future__ import annotations

import pytest

from tests.support.scenario import World, listed, sid


def people(world: World, number: int, epoch: int | None = None) -> dict[str, str | int | bytes]:
    """Arguments: so many are in a's room, as somebody saw who had read the record."""
    seen = world.epoch("a") if epoch is None else epoch
    return {"session_id": sid("a"), "epoch": seen, "people": number}


@pytest.mark.parametrize("nodes", [0, 1])
def test_people_who_wait_are_counted(world: World, nodes: int) -> None:
    """In line, or on the way to a node; the record's version stays, nobody is told."""
    for _ in range(nodes):
        world.add_node()
    world.open("a")
    assert world.call("count_people", **people(world, 2)) == ("noted", [])
    assert world.changes == {"s:a participants": "2"}
    assert world.session("a").participants == 2


def test_where_a_worker_looks_it_counts_itself(world: World) -> None:
    """What somebody else saw a moment ago is of no interest."""
    world.add_node()
    world.open("a")
    before = people(world, 5)
    world.bring("a", "joining_room")
    world.beat(residents=listed(("a", world.epoch("a"), 1, 1, 1)))
    assert world.call("count_people", **before) == ("moved", [])
    assert world.session("a").participants == 1


def test_what_was_seen_before_a_return_counts_no_more(world: World) -> None:
    """The epoch tells; a return begins with nobody counted."""
    world.add_node()
    world.bring("a", "running")
    before = people(world, 3)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 1, 2)))
    world.run("give_back", **world.giving("a", "media_lost"))
    assert world.session("a").participants == 0
    assert world.call("count_people", **before) == ("moved", [])
    assert world.call("count_people", **people(world, 1)) == ("noted", [])


def test_nothing_is_made_of_an_unknown_or_ended_session(world: World) -> None:
    """It changes nothing."""
    assert world.call("count_people", **people(world, 1, epoch=0)) == ("moved", [])
    world.open("a")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.call("count_people", **people(world, 1)) == ("moved", [])
    assert world.changes == {}
