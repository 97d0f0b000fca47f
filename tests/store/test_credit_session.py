"""credit_session: what a failure took while a session stayed on its node is given back."""

from __future__ import annotations

import pytest

from tests.support.scenario import START_MS, World, sid


def ends(world: World) -> int:
    """When the session's limit ends, registry time."""
    return int(str(world.fact(f"s:{sid('a')}", "t_session")))


def test_the_limit_comes_later_by_what_was_lost(world: World) -> None:
    """Once, however often the same sum is told; a higher sum gives the difference."""
    world.add_node()
    world.bring("a", "running")
    before = ends(world)
    assert world.call("credit_session", **world.owner("a"), lost_ms=4_000) == ("credited", [])
    assert ends(world) == before + 4_000
    assert world.call("credit_session", **world.owner("a"), lost_ms=4_000) == ("already", [])
    assert world.changes == {}
    assert world.call("credit_session", **world.owner("a"), lost_ms=5_500) == ("credited", [])
    assert ends(world) == before + 5_500


def test_it_is_told_and_the_deadline_moves_with_it(world: World) -> None:
    """Readers see the new end, the audit trail says how much."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(100)
    world.call("credit_session", **world.owner("a"), lost_ms=4_000)
    assert world.changes["s:a credited"] == "4000"
    assert world.changes["ev 7"] == "credited a n1 4000"
    assert "dl a" in world.changes or ends(world) > START_MS


def test_a_session_without_a_limit_has_nothing_to_put_off(world: World) -> None:
    """The sum is noted all the same."""
    world.add_node()
    world.bring("a", "running", d_session=0)
    assert world.call("credit_session", **world.owner("a"), lost_ms=4_000) == ("credited", [])
    assert world.fact(f"s:{sid('a')}", "t_session") == ""


def test_after_a_return_the_sum_begins_anew(world: World) -> None:
    """The next node counts from nothing; what was given back stays given."""
    world.add_node("n1")
    world.bring("a", "running")
    world.call("credit_session", **world.owner("a"), lost_ms=4_000)
    world.kill("n1")
    world.add_node("n2")
    world.bring("a", "running")
    before = ends(world)
    assert world.call("credit_session", **world.owner("a"), lost_ms=1_000) == ("credited", [])
    assert ends(world) == before + 1_000


@pytest.mark.parametrize("state", ["assigned", "joining_room", "starting_pipeline"])
def test_nothing_is_lost_before_it_runs(world: World, state: str) -> None:
    """A call in another state isn't about this session's play."""
    world.add_node()
    world.bring("a", state)
    assert world.call("credit_session", **world.owner("a"), lost_ms=4_000) == ("fenced", [])
    assert world.changes == {}


@pytest.mark.parametrize(
    "stranger", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}, {"session_id": sid("b")}]
)
def test_only_the_owner_is_heard(world: World, stranger: dict[str, str | int]) -> None:
    """Another node, another life, another epoch, another session."""
    world.add_node()
    world.bring("a", "running")
    call = {**world.owner("a"), **stranger}
    assert world.call("credit_session", **call, lost_ms=4_000) == ("fenced", [])
    assert world.changes == {}
