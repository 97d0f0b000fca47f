"""Is every contradiction found, and nothing that is sound called one?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.truth import (
    OVERDUE_MS,
    SETTLES_MS,
    Difference,
    Evidence,
    Part,
    differences,
    lasting,
)
from shared.facts import STAYS, KeyFacts, NodeFacts, PoolFacts, RoomFacts, SessionFacts
from shared.states import SessionState
from tests.support.made_facts import (
    HOUR_MS,
    LIVE,
    NOW_MS,
    ended,
    member,
    node,
    pool,
    resident,
    session,
    waiting,
)


def found(facts: PoolFacts, **more: object) -> list[tuple[str, str]]:
    """Return part and subject of each difference."""
    seen = Evidence(facts=facts, **more)  # type: ignore[arg-type]
    return [(str(one.part), one.subject) for one in differences(seen)]


def at(facts: SessionFacts, deadline_ms: int, kind: str = "session") -> SessionFacts:
    """Give a session a deadline."""
    record = {**facts.record, f"t_{kind}": str(deadline_ms)}
    return replace(facts, record=record, deadline_ms=deadline_ms)


def test_a_sound_pool_has_no_differences() -> None:
    """Waiting, resident, quarantined, ended; a node that rests and one that is drained."""
    sessions = (
        at(waiting("w", ticket=9), NOW_MS + 60_000, "queued"),
        at(resident("a"), NOW_MS + 1_000),
        ended("c", ticket="6"),
    )
    nodes = (
        node(member("a"), member("c", quarantined=True), **{"!c": "4", "kept": "1"}),
        replace(node(name="n2", admin="draining"), free_score=None),
        replace(node(name="n3", rest=str(NOW_MS + 5_000)), free_score=None),
        replace(node(name="n4", state="dead"), lease_ms=None, free_score=None),
    )
    assert found(pool(*sessions, nodes=nodes)) == []


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        (replace(waiting(), line_ticket=None), Part.PLACE),
        (replace(waiting(), line_ticket=6), Part.PLACE),
        (replace(waiting(), record={**waiting().record, "node": "n1"}), Part.PLACE),
        (replace(resident(), line_ticket=5), Part.PLACE),
        (replace(resident(), slot_epoch=None), Part.PLACE),
        (replace(resident(), slot_epoch=6), Part.PLACE),
        (replace(ended(), line_ticket=5), Part.PLACE),
        (replace(ended(), slot_epoch=7), Part.PLACE),
        (replace(session(), line_ticket=5), Part.PLACE),
        (replace(at(resident(), NOW_MS), deadline_ms=None), Part.DEADLINE),
        (replace(resident(), deadline_ms=NOW_MS), Part.DEADLINE),
        (at(ended(), NOW_MS), Part.DEADLINE),
        (at(resident(), NOW_MS - OVERDUE_MS - 1), Part.DEADLINE),
        (resident(ticket="1001"), Part.NUMBER),
        (resident(epoch="7000"), Part.PLACE),
        (replace(resident(), lifetimes=replace(LIVE, record=HOUR_MS)), Part.LIFETIME),
        (replace(resident(), lifetimes=replace(LIVE, request=-2)), Part.LIFETIME),
        (replace(resident(idem="ab"), lifetimes=replace(LIVE, idempotency=9)), Part.LIFETIME),
        (replace(resident(), lifetimes=replace(LIVE, image=60_000)), Part.LIFETIME),
        (replace(ended(), lifetimes=LIVE), Part.LIFETIME),
    ],
)
def test_what_is_wrong_with_a_session_is_found(facts: SessionFacts, part: Part) -> None:
    """Each contradiction by its part."""
    assert (str(part), "a") in found(pool(facts))


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        (replace(node(member()), lease_ms=None, free_score=None), Part.SLOT),
        (replace(node(), lease_ms=NOW_MS - OVERDUE_MS - 1), Part.SLOT),
        (node(member(quarantined=True), kept="1"), Part.SLOT),
        (node(member(state=None)), Part.SLOT),
        (node(member(node_id="n2")), Part.SLOT),
        (node(**{"!x": "3"}), Part.SLOT),
        (replace(node(), free_score=None), Part.FREE),
        (node(admin="draining"), Part.FREE),
        (node(media_ok="0"), Part.FREE),
        (replace(node(member(), member("b")), free_score=1.0), Part.FREE),
        (replace(node(member()), free_score=0.0), Part.FREE),
        (replace(node(strangers="1", listed="1"), free_score=0.5), Part.NODE),
        (node(member(), listed="0"), Part.NODE),
    ],
)
def test_what_is_wrong_with_a_node_is_found(facts: NodeFacts, part: Part) -> None:
    """Each contradiction by its part, and only that."""
    assert found(pool(nodes=(facts,))) == [(str(part), "n1")]


def test_a_session_that_was_just_accepted_needn_t_be_listed_yet() -> None:
    """The beat that lists it is on its way; one that is only assigned isn't known there at all."""
    fresh = node(member(acked=9), member("b", state=SessionState.ASSIGNED, acked=None), listed="0")
    assert found(pool(nodes=(fresh,))) == []


def test_a_node_without_a_word_isn_t_accused() -> None:
    """It hasn't beaten yet since it registered."""
    silent = node(member())
    record = {name: value for name, value in silent.record.items() if name != "listed"}
    assert found(pool(nodes=(replace(silent, record=record),))) == []


def test_a_ticket_given_twice_is_found() -> None:
    """Whoever has it second is named."""
    assert found(pool(waiting("a"), waiting("b"))) == [("number", "b")]


def test_the_byte_budget_counts_what_is_there() -> None:
    """Only if all sessions were looked at."""
    facts = pool(replace(waiting(), image_bytes=7), image_bytes="9")
    assert found(facts) == [("image", "default")]
    assert found(facts, whole=False) == []
    assert found(pool(replace(waiting(), image_bytes=7), image_bytes="7")) == []


def key(name: str, kind: str = "", *, lifetime_ms: int = STAYS, fits: bool = True) -> KeyFacts:
    """A key as the scan found it."""
    subject = name.partition(":")[2] if "<" in kind else ""
    return KeyFacts(
        name=name,
        kind=kind,
        subject=subject,
        type_fits=fits,
        lasting=kind in ("q", "ctr"),
        lifetime_ms=lifetime_ms,
    )


@pytest.mark.parametrize(
    ("facts", "is_wrong"),
    [
        (key("zzz"), True),
        (key("q", "q"), False),
        (key("q", "q", fits=False), True),
        (key("s:a", "s:<sid>"), False),
        (key("sp:x", "sp:<sid>"), True),
        (key("sp:x", "sp:<sid>", lifetime_ms=9), False),
        (key("a:x", "a:<sid>"), True),
        (key("a:c", "a:<sid>"), True),
        (key("n:n1", "n:<nid>"), False),
        (key("n:n9", "n:<nid>"), True),
        (key("n:n9", "n:<nid>", lifetime_ms=9), False),
        (key("idem:ab", "idem:<hash>"), False),
        (key("idem:cd", "idem:<hash>"), True),
    ],
)
def test_every_key_belongs_to_somebody(facts: KeyFacts, is_wrong: bool) -> None:
    """Or it goes by itself."""
    seen = pool(waiting("a"), ended("c", ticket="6"), nodes=(node(),))
    told = found(seen, keys=(facts,), idempotency={"ab": "a", "cd": "x"})
    assert told == ([("key", facts.name)] if is_wrong else [])


def room(name: str = "a", epoch: int | None = 7) -> RoomFacts:
    """A room of ours."""
    return RoomFacts(session_id=name, epoch=epoch, participants=2, publishers=1, made_at_s=1)


OLD = str(NOW_MS - SETTLES_MS - 1)


@pytest.mark.parametrize(
    ("facts", "rooms", "is_wrong"),
    [
        (resident(started=OLD), (room(),), False),
        (resident(started=OLD), (), True),
        (resident(started=OLD), (room(epoch=6),), True),
        (resident(started=str(NOW_MS)), (), False),
        (resident(started=OLD, connected="0"), (), False),
        (ended(ended=OLD), (room(),), True),
        (ended(ended=str(NOW_MS)), (room(),), False),
        (session(), (room(),), True),
        (waiting(), (), False),
    ],
)
def test_rooms_and_sessions_belong_together(
    facts: SessionFacts, rooms: tuple[RoomFacts, ...], is_wrong: bool
) -> None:
    """After a moment in which the one may be ahead of the other."""
    told = found(pool(facts, nodes=(node(member()),)), rooms=rooms)
    assert told == ([("room", "a")] if is_wrong else [])


def test_a_node_that_reaches_no_media_server_has_no_rooms_to_compare() -> None:
    """Nobody can be seen, so nothing is missing."""
    away = replace(node(member(), media_ok="0"), free_score=None)
    assert found(pool(resident(started=OLD), nodes=(away,)), rooms=()) == []


def test_only_what_lasts_is_a_difference() -> None:
    """In the words of the second look."""
    first = [
        Difference(part=Part.SLOT, subject="n1", text="passes"),
        Difference(part=Part.NODE, subject="n1", text="holds 1"),
    ]
    second = [
        Difference(part=Part.NODE, subject="n1", text="holds 2"),
        Difference(part=Part.FREE, subject="n1", text="is new"),
    ]
    assert lasting(first, second) == second[:1]


@pytest.mark.parametrize(
    ("state", "record", "words"),
    [
        ("joining_room", {"d_joining": "15000", "connected": ""}, "has no deadline for that"),
        ("running", {"t_joining": "9"}, "its deadline for joining_room runs"),
        ("running", {"t_starting": "9"}, "its deadline for starting_pipeline runs"),
        ("draining", {"d_draining": "30000"}, "has no deadline for that"),
        ("dancing", {}, "has the state 'dancing', which doesn't exist"),
        ("joining_room", {"d_joining": "15000", "t_joining": "9"}, ""),
        ("joining_room", {"d_joining": "0"}, ""),
        ("joining_room", {"d_joining": "15000", "connected": "1", "t_controller": "9"}, ""),
        ("running", {"d_joining": "15000", "t_session": "9"}, ""),
    ],
)
def test_a_state_that_was_set_by_hand_shows_by_its_deadlines(
    state: str, record: dict[str, str], words: str
) -> None:
    """Every script sets the two together."""
    seen = Evidence(facts=pool(resident(state=state, **record)))
    texts = [one.text for one in differences(seen) if one.part is Part.STEP]
    assert [words in text for text in texts] == ([True] if words else []), texts
