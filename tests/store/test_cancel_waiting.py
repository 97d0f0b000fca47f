"""cancel_waiting: an operator takes somebody out of the line, and only out of the line."""

from __future__ import annotations

import pytest

from shared.store import replies
from tests.support.scenario import World, sid

ADMIN = {"session_id": sid("a"), "reason": "admin"}


def test_who_waits_is_ended_with_the_reason(world: World) -> None:
    """Those behind move up."""
    world.open("x", "a", "b")
    word, (fields,) = world.call("cancel_waiting", **ADMIN)
    record = replies.session(fields)
    assert (word, record.state, record.reason) == ("ended", "closed", "admin")
    assert world.line() == "xb"
    assert world.session("b").position == 2


@pytest.mark.parametrize("state", ["assigned", "joining_room", "starting_pipeline", "running"])
def test_who_is_served_is_left_alone(world: World, state: str) -> None:
    """It was faster than the operator."""
    world.add_node()
    world.bring("a", state)
    word, (fields,) = world.call("cancel_waiting", **ADMIN)
    assert (word, replies.session(fields).state) == ("served", state)
    assert world.changes == {}


def test_who_drains_is_left_alone(world: World) -> None:
    """Its own end goes on."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.call("cancel_waiting", **ADMIN)[0] == "served"
    assert world.changes == {}


def test_an_ended_session_keeps_its_reason(world: World) -> None:
    """A repeat is harmless."""
    world.open("a")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    word, (fields,) = world.call("cancel_waiting", **ADMIN)
    assert (word, replies.session(fields).reason) == ("already", "client_stop")


def test_an_unknown_session_is_gone(world: World) -> None:
    """Nothing is made."""
    assert world.call("cancel_waiting", **ADMIN) == ("gone", [])
    assert world.changes == {}
