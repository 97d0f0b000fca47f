"""end_session: a node confirms that nothing is left of a session, and its slot goes on."""

from __future__ import annotations

import pytest

from shared.store.scripts import Argument
from tests.support.scenario import START_MS, World, sid

T = START_MS
DONE = {"reason": "completed", "error": ""}


def test_the_slot_goes_to_the_next_in_line_in_the_same_step(world: World) -> None:
    """Nothing lies between the end of one and the turn of the next."""
    world.add_node()
    world.bring("a", "running")
    world.open("b")
    ticket = str(world.session("b").ticket)
    world.pass_time(6)
    reply = world.call("end_session", **world.owner("a"), reason="service_error", error="it broke")
    assert reply == ("ended", ["service_error"])
    now, next_version = str(T + 6_000), str(T + 6_001)
    assert world.changes == {
        **_A_ENDED,
        "q b": None,
        "ns:n1 b": now,
        "s:b state": "assigned",
        "s:b node": "n1",
        "s:b epoch": now,
        "s:b admitted": now,
        "s:b assigned": now,
        "s:b assigned_rt": now,
        "s:b handed": now,
        "s:b t_queued": None,
        "s:b t_assigned": str(T + 13_000),
        "s:b t_session": str(T + 1_806_000),
        "dl b": str(T + 13_000),
        "s:b updated": now,
        "s:b ver": next_version,
        "ctr version": next_version,
        "ctr epoch": now,
        "ctr top": ticket,
        "ctr n_assigned": "2",
        "ctr n_wait_le_10": "1",
        "ctr n_wait_ms": "6000",
        "ev 8": "ended a n1 service_error",
        "ev 9": "assigned b n1",
    }


_A_ENDED = {
    "ns:n1 a": None,
    "dl a": None,
    "s:a t_session": None,
    "s:a state": "failed",
    "s:a reason": "service_error",
    "s:a ended": str(T + 6_000),
    "s:a updated": str(T + 6_000),
    "s:a ver": str(T + 6_000),
    "s:a ttl": "3600",
    "sd:a error": "it broke",
    "sd:a ttl": "3600",
    "sp:a ttl": "3600",
    "ended a": str(T + 6_000),
    "ended ttl": "3600",
    "ctr n_ended_service_error": "1",
}


@pytest.mark.parametrize(
    ("reason", "state"),
    [("client_stop", "closed"), ("session_timeout", "expired"), ("invalid_config", "failed")],
)
def test_the_reason_decides_how_it_ended(world: World, reason: str, state: str) -> None:
    """Closed, expired or failed: each reason belongs to one of them."""
    world.add_node()
    world.bring("a", "starting_pipeline")
    world.call("end_session", **world.owner("a"), reason=reason, error="")
    assert world.changes["s:a state"] == state
    assert "sd:a error" not in world.changes


def test_a_reason_given_earlier_stays(world: World) -> None:
    """The client stopped it; what the service said while it was closed is no other reason."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    reply = world.call("end_session", **world.owner("a"), reason="service_error", error="late")
    assert reply == ("ended", ["client_stop"])
    assert world.session("a").state == "closed"


def test_a_second_end_frees_no_second_slot(world: World) -> None:
    """The slot belongs to the next session by then."""
    world.add_node()
    world.bring("a", "running")
    world.open("b", "c")
    late = {**world.owner("a"), **DONE}
    world.call("end_session", **late)
    assert world.call("end_session", **late) == ("already", [])
    assert world.changes == {}
    assert world.slots() == ["b"]
    assert world.line() == "c"


def test_the_end_of_an_old_assignment_is_fenced(world: World) -> None:
    """The session came back to the same node under a new epoch; the old end is about the past."""
    world.add_node()
    world.bring("a", "running")
    late = {**world.owner("a"), **DONE}
    world.call_once("give_back", **world.giving("a", "node_shutdown", capacity=1))
    assert world.state("a") == "assigned n1"
    assert world.call("end_session", **late) == ("fenced", [])
    assert world.changes == {}
    assert world.slots() == ["a"]


@pytest.mark.parametrize("other", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}])
def test_anybody_but_the_owner_is_fenced(world: World, other: dict[str, str]) -> None:
    """A former life, another node, another epoch: none of them ends the session."""
    world.add_node()
    world.bring("a", "running")
    assert world.call("end_session", **{**world.owner("a"), **DONE, **other}) == ("fenced", [])
    assert world.changes == {}


def test_a_live_node_can_t_speak_for_another(world: World) -> None:
    """Its own life and the session's epoch are right, but the session isn't there."""
    world.add_node()
    world.bring("a", "running")
    other = world.add_node("n2")
    stranger: dict[str, Argument] = {"node_id": "n2", "incarnation": other.incarnation}
    assert world.call("end_session", **{**world.owner("a"), **DONE, **stranger}) == ("fenced", [])
    assert world.changes == {}


def test_an_end_beside_leftovers_is_about_the_epoch_that_it_names(world: World) -> None:
    """The session came back to the node that still cleans up its last assignment."""
    world.add_node(capacity=2)
    world.bring("a", "starting_pipeline", d_starting=1_000)
    world.beat()
    old = {**world.owner("a"), **DONE}
    world.pass_time(1)
    world.run("sweep_deadlines", budget=64)
    assert (world.slots(), world.state("a")) == (["!a", "a"], "assigned n1")
    new = {**world.owner("a"), **DONE}
    assert world.call("end_session", **new) == ("ended", ["completed"])
    assert world.slots() == ["!a"]
    assert world.call_once("end_session", **old) == ("already", [])
    assert world.slots() == []


def test_a_waiting_session_is_ended_by_no_node(world: World) -> None:
    """It went back to the line after its node's death; the node's late word doesn't count."""
    world.add_node()
    world.bring("a", "running")
    late = {**world.owner("a"), **DONE}
    world.kill("n1")
    assert world.call("end_session", **late) == ("fenced", [])
    assert world.changes == {}
    assert world.line() == "a"


def test_a_late_confirmation_frees_the_quarantined_slot(world: World) -> None:
    """Cleanup took too long, the session ended without it; now the slot is empty and goes on."""
    world.add_node()
    world.bring("a", "running")
    world.open("b")
    late = {**world.owner("a"), **DONE}
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    for _ in range(4):
        world.pass_time(8)
        world.beat()
    world.run("sweep_deadlines", budget=64)
    assert (world.state("a"), world.slots(), world.line()) == ("closed n1", ["!a"], "b")
    assert world.call_once("end_session", **late) == ("already", [])
    assert world.changes["ns:n1 !a"] is None
    assert world.changes["n:n1 !a"] is None
    assert world.changes["ns:n1 b"] == str(world.epoch("b"))
    assert world.call("end_session", **late) == ("already", [])
    assert world.changes == {}
