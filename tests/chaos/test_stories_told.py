"""Is every lie in a session's story found, and no truth taken for one?"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from scripts.chaos_run.faults import Done
from scripts.chaos_run.guests import Visit
from scripts.chaos_run.schedule import Guest, Kind
from scripts.chaos_run.stories_told import Known, lies
from scripts.chaos_run.venue import Frame
from shared.events import Event

SID = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
NOW_MS = time.time_ns() // 1_000_000
MONOTONIC_S = time.monotonic()
FIRST, SECOND = 101, 102


def at(after_ms: int, what: str, node: str = "", epoch: int | None = None, why: str = "") -> Event:
    """One entry of the trail."""
    return Event(
        id=f"{NOW_MS + after_ms}-0",
        what=what,
        at_ms=NOW_MS + after_ms,
        session_id=SID,
        node_id=node,
        epoch=epoch,
        why=why,
    )


def frame(after_ms: int, node_id: str, epoch: int) -> Frame:
    """One frame as it was sent."""
    return Frame(MONOTONIC_S + after_ms / 1000, SID, node_id, epoch, 1)


def hurt(kind: Kind, target: str, from_ms: int, until_ms: int, lost_s: float = 0.0) -> Done:
    """One fault."""
    return Done(
        kind=kind,
        target=target,
        began_at_s=MONOTONIC_S + from_ms / 1000,
        began_at_ms=NOW_MS + from_ms,
        ended_at_s=MONOTONIC_S + until_ms / 1000,
        ended_at_ms=NOW_MS + until_ms,
        lost_s=lost_s,
        lost_bytes=0,
    )


GUEST = Guest(name="ann", at_s=0.0, plays_s=3.0, shows_up=True)
VISIT = Visit(
    guest=GUEST,
    accepted=[(SID, MONOTONIC_S)],
    since_s={SID: MONOTONIC_S},
    end="closed completed",
)
TRAIL = (
    at(0, "queued"),
    at(1, "assigned", "node-1", FIRST),
    at(10, "joining_room", "node-1", FIRST),
    at(20, "starting_pipeline", "node-1", FIRST),
    at(30, "running", "node-1", FIRST),
    at(50, "first_frame", "node-1", FIRST),
    at(4_000, "returned", "node-1", FIRST, "node_died"),
    at(4_001, "assigned", "node-2", SECOND),
    at(4_100, "running", "node-2", SECOND),
    at(4_150, "first_frame", "node-2", SECOND),
    at(7_000, "draining", "node-2", SECOND, "completed"),
    at(7_010, "ended", "node-2", SECOND, "completed"),
)
KNOWN = Known(
    visits=[VISIT],
    frames=[
        frame(40, "node-1", FIRST),
        frame(900, "node-1", FIRST),
        frame(4_140, "node-2", SECOND),
    ],
    done=[hurt(Kind.KILL, "node-1", 1_000, 3_000)],
    attempts={SID: 2},
)


def without(what: str) -> tuple[Event, ...]:
    """The trail, with one kind of entry missing."""
    return tuple(event for event in TRAIL if event.what != what)


def told(why: str, instead: str) -> tuple[Event, ...]:
    """The trail, with another cause."""
    return tuple(replace(event, why=instead) if event.why == why else event for event in TRAIL)


def test_a_true_story_is_none() -> None:
    """It tells who played, who died, how often it returned, and how it ended."""
    assert list(lies(KNOWN, TRAIL)) == []


@pytest.mark.parametrize(
    ("known", "trail", "words"),
    [
        (KNOWN, without("queued"), "doesn't begin"),
        (KNOWN, told("completed", "client_stop"), "was told closed completed"),
        (KNOWN, without("returned"), "was hurt (kill)"),
        (KNOWN, told("node_died", "node_shutdown"), "which nobody did"),
        (KNOWN, told("node_died", "media_lost"), "which nobody did"),
        (KNOWN, told("node_died", "node_drained"), "which nobody did"),
        (replace(KNOWN, attempts={SID: 3}), TRAIL, "tells of 1 returns, its record of 2"),
        (replace(KNOWN, frames=KNOWN.frames[:2]), TRAIL, "first frame of node-2 that nobody saw"),
        (
            replace(KNOWN, frames=[*KNOWN.frames, frame(500, "node-3", 77)]),
            TRAIL,
            "node-3 played it under 77",
        ),
        (
            replace(KNOWN, frames=[frame(900, "node-1", FIRST), KNOWN.frames[2]]),
            TRAIL,
            "before it was sent",
        ),
    ],
)
def test_a_lie_is_found(known: Known, trail: tuple[Event, ...], words: str) -> None:
    """Whatever the story gets wrong, one sentence names the session and what was so."""
    found = list(lies(known, trail))
    assert any(words in sentence and SID in sentence for sentence in found), found


def test_what_redis_lost_no_story_need_tell() -> None:
    """Its trail is gone, too."""
    loss = hurt(Kind.LOSE_TAIL, "redis", 3_500, 3_900, lost_s=2.0)
    known = replace(KNOWN, done=[*KNOWN.done, loss])
    assert list(lies(known, without("returned"))) == []
