"""note_first_frame: the play clock starts."""

from __future__ import annotations

import pytest

from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_the_first_frame_is_noted_once(world: World) -> None:
    """With its time and under which epoch; a later one of the same epoch changes nothing."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(1.5)
    assert world.call("note_first_frame", **world.frame("a")) == ("noted", [])
    assert world.changes == {
        "s:a first_frame": str(T + 1_500),
        "s:a first_frame_epoch": str(world.epoch("a")),
        "s:a updated": str(T + 1_500),
        "s:a ver": str(T + 1_500),
        "ctr version": str(T + 1_500),
        "ctr n_start_le_2": "1",
        "ctr n_start_ms": "1500",
        "ev 7": "first_frame a n1",
    }
    world.pass_time(1)
    assert world.call("note_first_frame", **world.frame("a")) == ("already", [])
    assert world.changes == {}


def test_a_frame_that_is_told_late_is_noted_when_it_was(world: World) -> None:
    """And nothing is counted that the time of an outage would be part of."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(30)
    assert world.call("note_first_frame", **world.frame("a", ago_ms=29_000)) == ("noted", [])
    assert world.fact(f"s:{sid('a')}", "first_frame") == str(T + 1_000)
    assert world.fact("ctr", "n_start_ms") == ""
    assert world.call("note_first_frame", **world.frame("a", ago_ms=31_000)) == ("already", [])


def test_a_moved_session_has_a_first_frame_of_its_new_epoch(world: World) -> None:
    """The one of the lost node is overwritten; the audit trail keeps both."""
    world.add_node("n1")
    world.bring("a", "running")
    world.run("note_first_frame", **world.frame("a"))
    world.kill("n1")
    world.add_node("n2")
    world.bring("a", "running")
    assert world.state("a") == "running n2"
    assert world.call("note_first_frame", **world.frame("a")) == ("noted", [])
    assert world.fact(f"s:{sid('a')}", "first_frame_epoch") == str(world.epoch("a"))


@pytest.mark.parametrize("state", ["assigned", "joining_room", "starting_pipeline"])
def test_nothing_is_played_before_it_runs(world: World, state: str) -> None:
    """A call in another state isn't about this session's play."""
    world.add_node()
    world.bring("a", state)
    assert world.call("note_first_frame", **world.frame("a")) == ("fenced", [])
    assert world.changes == {}


@pytest.mark.parametrize(
    "stranger", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}, {"session_id": sid("b")}]
)
def test_only_the_owner_is_heard(world: World, stranger: dict[str, str | int]) -> None:
    """Another node, another life, another epoch, another session."""
    world.add_node()
    world.bring("a", "running")
    call = {**world.frame("a"), **stranger}
    assert world.call("note_first_frame", **call) == ("fenced", [])
    assert world.changes == {}
