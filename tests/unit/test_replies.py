"""Replies of scripts become frozen records: all text outside, typed inside."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.node_profile import NodeProfile
from shared.records import (
    Assignment,
    Beat,
    BeatConfirmed,
    BeatStale,
    EndedHere,
    Kill,
    MustRegister,
    Presence,
    Resident,
    SessionLimits,
    SessionRecord,
    SessionRequest,
)
from shared.states import NodeState, Reason, SessionState
from shared.store import replies
from shared.store.nodes import beat_arguments, decode_beat, digests_of
from shared.store.scripts import Argument

RUNNING = (
    "default-a running 1800000000000 1800000000001 7 2 1800000000500 1800000001000 n1"
    " _ 1800001800000 3 _ node_died ann p-1 _"
)
"""Fields of include/record.lua in their order; _ stands for nothing."""


def row(text: str) -> list[str]:
    """Return the fields of one reply."""
    return ["" if field == "_" else field for field in text.split()]


def test_a_running_session() -> None:
    """Times become float seconds, and nothing becomes None."""
    assert replies.session(row(RUNNING)) == SessionRecord(
        session_id="default-a",
        state=SessionState.RUNNING,
        identity="ann",
        ticket=1_800_000_000_000,
        epoch=1_800_000_000_001,
        version=7,
        attempt=2,
        created_at_s=1_800_000_000.5,
        updated_at_s=1_800_000_001.0,
        node_id="n1",
        expires_at_s=1_800_001_800.0,
        pipeline_session_id="p-1",
        participants=3,
        returned_because="node_died",
    )


@pytest.mark.parametrize("state", list(SessionState))
def test_every_state_can_be_read(state: SessionState) -> None:
    """And only three of them are ends."""
    record = replies.session(row(RUNNING.replace("running", state)))
    assert record.state is state
    assert record.ended == (state in ("closed", "expired", "failed"))


@pytest.mark.parametrize("fields", [RUNNING.replace("running", "asleep"), RUNNING + " more"])
def test_a_reply_that_isn_t_understood_raises(fields: str) -> None:
    """An unknown state or a field too many is no session."""
    with pytest.raises(ValueError, match=r"asleep|unpack"):
        replies.session(row(fields))


def test_a_confirmed_beat() -> None:
    """What is owned, to do, and to stop."""
    owned, todo = [["default-a", "5"], ["default-b", "6"]], [["default-b", "6"]]
    kills = [["default-a", "5", "client_stop"], ["default-x", "2", "fenced"]]
    assert decode_beat("ok", [owned, todo, kills, []], ()) == BeatConfirmed(
        owned=frozenset(
            {
                Assignment(session_id="default-a", epoch=5),
                Assignment(session_id="default-b", epoch=6),
            }
        ),
        todo=(Assignment(session_id="default-b", epoch=6),),
        kills=(
            Kill(session_id="default-a", epoch=5, reason="client_stop"),
            Kill(session_id="default-x", epoch=2, reason="fenced"),
        ),
    )


def test_other_answers_to_a_beat() -> None:
    """Overtaken; or not known any more."""
    assert decode_beat("stale", [], ()) == BeatStale()
    assert decode_beat("register", ["keep"], ()) == MustRegister(keep=True)
    assert decode_beat("register", ["drop"], ()) == MustRegister(keep=False)


def test_a_beat_as_arguments() -> None:
    """Epochs travel as text: a JSON number would lose digits inside Lua."""
    epoch = 2**53 + 1
    seen = Presence(connected=True, controller=False, participants=2)
    named = beat_arguments(
        Beat(
            node_id="n1",
            incarnation=3,
            stamp=9,
            state=NodeState.BUSY,
            capacity=4,
            draining=False,
            media_ok=True,
            residents=(
                Resident(session_id="default-a", epoch=epoch, presence=seen),
                Resident(session_id="default-b", epoch=1),
            ),
            ended=(EndedHere(session_id="default-c", epoch=2, reason=Reason.COMPLETED),),
        )
    )
    assert named["residents"] == f'[["default-a", "{epoch}", 1, 0, 2], ["default-b", "1"]]'
    assert named["ended"] == '[["default-c", "2", "completed"]]'
    assert (named["state"], named["stamp"], named["capacity"]) == ("busy", 9, 4)


SAID: dict[str, Any] = {
    "node_id": "n1",
    "incarnation": 3,
    "stamp": 9,
    "state": "busy",
    "capacity": 4,
    "draining": False,
    "media_ok": True,
    "residents": '[["default-a", "5", 1, 0, 2, "running"], ["default-b", "6"]]',
    "ended": "[]",
    "gpus": "",
}


@pytest.mark.parametrize(
    ("other", "digests"),
    [
        ({"stamp": 10}, set()),
        ({"gpus": "news of them is written whatever else is said"}, set()),
        ({"incarnation": 4}, {"said"}),
        ({"state": "idle"}, {"said"}),
        ({"capacity": 3}, {"said"}),
        ({"draining": True}, {"said"}),
        ({"media_ok": False}, {"said"}),
        ({"ended": '[["default-c", "2", "completed"]]'}, {"said"}),
        ({"residents": '[["default-a", "5", 1, 0, 2, "running"]]'}, {"said", "seen"}),
        ({"residents": SAID["residents"].replace("5", "7")}, {"said"}),
        ({"residents": SAID["residents"].replace("running", "joining_room")}, {"said"}),
        ({"residents": SAID["residents"].replace("1, 0", "1, 1")}, {"seen"}),
        ({"residents": SAID["residents"].replace('"6"', '"6", 1, 0, 0')}, {"seen"}),
    ],
)
def test_whatever_a_beat_says_is_in_one_of_its_digests(
    other: dict[str, Argument], digests: set[str]
) -> None:
    """The registry goes by these alone; of its two, one is of who is in the rooms."""
    before, after = digests_of(SAID), digests_of(SAID | other)
    assert {name for name in before if before[name] != after[name]} == digests


def test_a_beat_without_news_confirms_what_it_listed() -> None:
    """In a word; and while an operator has the sessions moved, until when."""
    here = Resident(session_id="default-a", epoch=5)
    owned = frozenset({Assignment(session_id="default-a", epoch=5)})
    assert decode_beat("same", [], [here]) == BeatConfirmed(owned=owned)
    assert decode_beat("same", ["1500"], [here]) == BeatConfirmed(owned=owned, moves_in_s=1.5)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    identity=texts,
    prompt=st.none() | texts,
    config=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=4),
)
def test_a_request_survives_the_way_through_redis(
    identity: str, prompt: str | None, config: dict[str, object]
) -> None:
    """Whatever a client writes into it."""
    request = SessionRequest(identity=identity, prompt=prompt, config=config)
    assert replies.request(replies.request_json(request)) == request


def test_a_profile_survives_the_way_through_redis() -> None:
    """Its start limit has a field of its own."""
    profile = NodeProfile(
        service="w.py", mode="bidirectional", host="h", pid=7, release="1", start_timeout_s=2.5
    )
    fields = row("n1 idle _ 0 5 3 1 0 1 1500")
    record = replies.node([*fields, replies.profile_json(profile), "2500", "", ""])
    assert record.profile == profile
    assert (record.judged, record.capacity, record.beat_age_s) == ("ok", 3, 1.5)


def test_every_limit_is_a_whole_number_of_milliseconds() -> None:
    """Zero stays zero: switched off."""
    values = replies.limits(SessionLimits(queued_s=0, session_s=1800.0004))
    assert len(values) == len(dataclasses.fields(SessionLimits))
    assert (values["d_queued"], values["d_session"]) == (0, 1_800_000)
