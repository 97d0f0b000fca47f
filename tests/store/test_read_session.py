"""read_session: one session as it stands, with its place in line."""

from __future__ import annotations

import pytest

from shared.records import SessionRecord
from shared.states import SessionState
from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_a_waiting_session_is_read_whole(world: World) -> None:
    """Its place is counted when it is read; reading changes nothing."""
    world.open("a", "b")
    word, (fields,) = world.call("read_session", session_id=sid("b"))
    assert word == "ok"
    assert replies.session(fields) == SessionRecord(
        session_id=sid("b"),
        state=SessionState.QUEUED,
        identity="ann",
        ticket=T + 1,
        epoch=0,
        version=T + 1,
        attempt=1,
        created_at_s=T / 1000,
        updated_at_s=T / 1000,
        position=2,
    )
    assert world.changes == {}


def test_an_unknown_session_is_gone(world: World) -> None:
    """Nothing is made for it."""
    assert world.call("read_session", session_id=sid("a")) == ("gone", [])
    assert world.changes == {}


def test_expiry_is_told_in_wall_time(world: World) -> None:
    """The limit itself runs in registry time: a stepped clock moves what is told, not the end."""
    world.add_node()
    world.bring("a", "running")
    assert world.session("a").expires_at_s == T / 1000 + 1800
    world.step_clock(3600)
    told_s = world.session("a").expires_at_s
    assert told_s is not None
    assert told_s - world.now_ms / 1000 == pytest.approx(1800 - 2)
