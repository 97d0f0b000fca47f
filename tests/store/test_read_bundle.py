"""read_bundle: a node packs what it needs to bring a session back after the registry lost it."""

from __future__ import annotations

import json

from tests.support.key_dump import changes, dump
from tests.support.scenario import START_MS, World, sid


def test_a_bundle_holds_what_was_asked_and_granted(world: World) -> None:
    """Ticket, limits, texts, request, idempotency, and what is left of the session limit."""
    world.add_node()
    world.bring("a", "running", request='{"prompt":"sea"}', idempotency_hash="ab", fingerprint="f")
    world.pass_time(600)
    before = dump(world.raw)
    bundle = json.loads(world.bundle("a"))
    assert changes(before, dump(world.raw)) == {}
    assert bundle["record"]["ticket"] == str(START_MS)
    assert bundle["record"]["d_draining"] == "30000"
    assert (bundle["request"], bundle["print"]) == ('{"prompt":"sea"}', f"{sid('a')} f")
    assert bundle["texts"] == ["identity", "ann", "pipeline_session_id", ""]
    assert bundle["left"] == "1200000"


def test_it_keeps_since_when_something_is_seen(world: World) -> None:
    """A session that plays is brought back as one that plays, not as one without a frame."""
    world.add_node()
    world.bring("a", "running")
    assert "first_frame" not in json.loads(world.bundle("a"))["record"]
    world.run("note_first_frame", **world.frame("a"))
    kept = json.loads(world.bundle("a"))["record"]
    assert kept["first_frame_epoch"] == str(world.epoch("a"))
    assert kept["first_frame"] == world.fact(f"s:{sid('a')}", "first_frame")


def test_it_says_nothing_of_what_is_being_done(world: World) -> None:
    """State, node, epoch and who is in the room come from whoever adopts."""
    world.add_node()
    world.bring("a", "running")
    kept = json.loads(world.bundle("a"))["record"]
    assert not kept.keys() & {"state", "node", "epoch", "acked", "connected", "t_session"}


def test_a_session_without_a_limit_has_nothing_left_of_it(world: World) -> None:
    """And without an idempotency key there is none to promise."""
    world.add_node()
    world.bring("a", "joining_room", d_session=0)
    word, (bundle,) = world.call("read_bundle", session_id=sid("a"))
    assert (word, json.loads(str(bundle)).keys() & {"left", "print"}) == ("ok", set())


def test_there_is_no_bundle_of_an_unknown_session(world: World) -> None:
    """It was forgotten: then it can't be adopted either."""
    assert world.run("read_bundle", session_id=sid("x")) == ("gone", [])
