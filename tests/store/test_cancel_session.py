"""cancel_session: the client or an operator ends a session."""

from __future__ import annotations

import pytest

from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = START_MS
STOP = {"session_id": sid("a"), "reason": "client_stop"}


def test_a_waiting_session_ends_in_this_step(world: World) -> None:
    """It leaves the line, keeps its texts for an hour and holds nothing else."""
    world.open("a", "b")
    world.pass_time(5)
    word, (fields,) = world.call("cancel_session", **STOP)
    record = replies.session(fields)
    assert (word, record.state, record.reason) == ("ended", "closed", "client_stop")
    assert (record.position, record.expires_at_s) == (None, None)
    assert world.changes == {
        "q a": None,
        "dl a": None,
        "s:a t_queued": None,
        "s:a state": "closed",
        "s:a reason": "client_stop",
        "s:a ended": str(T + 5_000),
        "s:a updated": str(T + 5_000),
        "s:a ver": str(T + 5_000),
        "s:a ttl": "3600",
        "sd:a ttl": "3600",
        "sp:a ttl": "3600",
        "ctr version": str(T + 5_000),
        "ctr n_ended_client_stop": "1",
        "ev 3": "ended a client_stop",
        "ended a": str(T + 5_000),
        "ended ttl": "3600",
    }


@pytest.mark.parametrize("state", ["assigned", "joining_room", "starting_pipeline", "running"])
def test_a_resident_session_keeps_its_slot_until_its_node_confirms(
    world: World, state: str
) -> None:
    """It drains, with a limit; no newcomer gets the slot meanwhile."""
    world.add_node()
    world.bring("a", state)
    word, (fields,) = world.call("cancel_session", **STOP)
    assert (word, replies.session(fields).state) == ("draining", "draining")
    assert world.changes["s:a reason"] == "client_stop"
    assert world.changes["s:a t_draining"] == world.changes["dl a"] == str(T + 30_000)
    assert world.slots() == ["a"]
    world.open("b")
    assert world.state("b") == "queued"


def test_its_node_is_told_to_stop(world: World) -> None:
    """A hint on the node's channel; the kill list of its next beat is what counts."""
    world.add_node()
    world.bring("a", "running")
    with world.listening("w:n1") as heard:
        world.run("cancel_session", **STOP)
        assert heard() == f"stop {sid('a')} {world.epoch('a')}"


def test_a_session_that_was_never_accepted_is_ended_by_its_node(world: World) -> None:
    """It stands in the kill list though the node doesn't know it; the node answers with `end`."""
    world.add_node()
    world.open("a")
    world.run("cancel_session", **STOP)
    epoch = str(world.epoch("a"))
    assert world.beat() == ("ok", [[[sid("a"), epoch]], [], [[sid("a"), epoch, "client_stop"]], []])
    ended = {**world.owner("a"), "reason": "client_stop", "error": ""}
    assert world.call("end_session", **ended) == ("ended", ["client_stop"])
    assert world.slots() == []


def test_deleting_twice_is_one_end(world: World) -> None:
    """The first reason stays, whoever comes second."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", **STOP)
    word, (fields,) = world.call("cancel_session", session_id=sid("a"), reason="admin")
    assert (word, replies.session(fields).reason) == ("already", "client_stop")
    assert world.changes == {}
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    word, (fields,) = world.call("cancel_session", session_id=sid("a"), reason="admin")
    assert (word, replies.session(fields).reason) == ("already", "client_stop")
    assert world.changes == {}


def test_an_unknown_session_is_gone(world: World) -> None:
    """Nothing is made for it."""
    assert world.call("cancel_session", **STOP) == ("gone", [])
    assert world.changes == {}


def test_a_returned_session_can_be_cancelled_while_it_waits(world: World) -> None:
    """What was left of its limit is no expiry of the ended session."""
    world.add_node()
    world.bring("a", "running")
    world.kill("n1")
    word, (fields,) = world.call("cancel_session", **STOP)
    record = replies.session(fields)
    assert (word, record.state, record.expires_at_s) == ("ended", "closed", None)


def test_the_image_goes_with_its_session(world: World) -> None:
    """The byte budget is back at zero."""
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=100)
    world.open("a")
    world.call("cancel_session", **STOP)
    assert world.changes["a:a"] is None
    assert world.changes["ctr image_bytes"] == "0"
