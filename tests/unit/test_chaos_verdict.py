"""Does the verdict of a chaos run find what is wrong, and let pass what isn't?"""

from __future__ import annotations

import time

from scripts.chaos_run.faults import Done
from scripts.chaos_run.figures import figures
from scripts.chaos_run.guests import Visit
from scripts.chaos_run.schedule import Guest, Kind
from scripts.chaos_run.venue import Frame
from scripts.chaos_run.verdict import (
    crowded,
    doubled,
    leaked,
    lost,
    overtaken,
    strange_keys,
    unjust,
    unowned,
)
from shared.events import Event
from shared.states import SessionState
from shared.store.keys import line_key, prefix
from tests.support.key_dump import Key

NOW_MS = round(time.time() * 1000)
NOW_S = time.monotonic()


def event(number: int, what: str, session_id: str = "", **more: object) -> Event:
    """Return an entry of the trail, *number* ms after the first."""
    fields: dict[str, object] = {"id": f"{number}-0", "what": what, "at_ms": NOW_MS + number}
    return Event(session_id=session_id, **{**fields, **more})  # type: ignore[arg-type]


def visit(*accepted: float, end: str = "closed completed") -> Visit:
    """Return a visit whose sessions a, b, … were accepted at these times."""
    guest = Guest(name="ann", at_s=0.0, plays_s=1.0, shows_up=True)
    names = list(zip("abc", accepted, strict=False))
    return Visit(guest=guest, accepted=names, since_s=dict(names), end=end)


def tail_lost(began_s: float, lost_s: float) -> Done:
    """Return a loss of Redis's latest history."""
    return Done(
        kind=Kind.LOSE_TAIL,
        target="redis",
        began_at_s=began_s,
        began_at_ms=0,
        ended_at_s=began_s + 1,
        ended_at_ms=1000,
        lost_s=lost_s,
        lost_bytes=1,
    )


def test_an_accepted_session_must_be_somewhere_and_end() -> None:
    """One that is nowhere is lost, and so is one that lives on."""
    assert not list(lost([visit(1.0)], {"a": SessionState.CLOSED}, []))
    assert "nowhere" in next(lost([visit(1.0)], {"a": None}, []))
    assert "never ended" in next(lost([visit(1.0)], {"a": SessionState.RUNNING}, []))
    assert "never learned" in next(lost([visit(1.0, end="")], {"a": SessionState.CLOSED}, []))


def test_a_lost_tail_excuses_what_was_accepted_just_before_alone() -> None:
    """What was safely on disk by then may not vanish."""
    gone: dict[str, SessionState | None] = {"a": None}
    assert not list(lost([visit(99.5)], gone, [tail_lost(100.0, 1.0)]))
    assert list(lost([visit(90.0)], gone, [tail_lost(100.0, 1.0)]))


def test_one_key_has_one_session() -> None:
    """Two that both exist were let in twice."""
    states: dict[str, SessionState | None] = dict.fromkeys("ab", SessionState.CLOSED)
    assert "two sessions" in next(lost([visit(1.0, 2.0)], states, []))
    forgotten = tail_lost(1.5, 1.0)
    assert not list(lost([visit(1.0, 9.0)], states, [forgotten])), "a node brought it back"
    assert list(lost([visit(8.0, 9.0)], states, [forgotten]))


def test_a_frame_of_an_older_worker_after_a_newer_one_is_found() -> None:
    """In the order of sending; a worker that merely came earlier is fine."""
    older, newer = Frame(1.0, "a", "node-1", 10, 1), Frame(2.0, "a", "node-2", 20, 1)
    zombie = Frame(3.0, "a", "node-1", 10, 1)
    assert not list(doubled([newer, older], {}, []))
    assert list(doubled([older, newer, zombie], {}, []))
    assert not list(doubled([older, newer, zombie], {"node-1": [2.99]}, [])), "it was in flight"


def test_an_older_worker_may_play_on_if_the_registry_forgot_a_newer_one_that_has_left() -> None:
    """But not beside it, and not where nothing was forgotten."""
    newer, older = Frame(2.0, "a", "node-2", 20, 1), Frame(3.0, "a", "node-1", 10, 2)
    still_there = Frame(3.1, "a", "node-2", 20, 1)
    assert list(doubled([newer, older], {}, []))
    assert not list(doubled([newer, older], {}, [tail_lost(2.2, 0.5)]))
    assert list(doubled([newer, older, still_there], {}, [tail_lost(2.2, 0.5)]))


def test_a_frame_after_the_session_was_taken_back_is_found() -> None:
    """Even if nobody else plays yet: the node had no right to it any more."""
    events = [
        event(0, "assigned", "a", node_id="node-1", epoch=10),
        event(1000, "returned", "a", node_id="node-1", epoch=11, why="node_died"),
    ]
    before, after = (Frame(NOW_S + s, "a", "node-1", 10, 1) for s in (0.9, 1.5))
    assert not list(unowned([before], events, [], {}))
    assert "node_died" in next(unowned([before, after], events, [], {}))
    assert not list(unowned([after], events, [tail_lost(NOW_S + 1.0, 1.0)], {}))


def test_an_admission_past_somebody_with_a_lower_ticket_is_found() -> None:
    """A session that came back waits with its old ticket, so it can be overtaken, too."""
    line = [
        event(1, "queued", "a", ticket=1),
        event(2, "queued", "b", ticket=2),
        event(3, "assigned", "a", ticket=1),
        event(4, "returned", "a", ticket=1),
    ]
    assert not list(overtaken([*line, event(5, "assigned", "a", ticket=1)]))
    assert "before ['a']" in next(overtaken([*line, event(5, "assigned", "b", ticket=2)]))
    gone = event(5, "ended", "a", ticket=1)
    assert not list(overtaken([*line, gone, event(6, "assigned", "b", ticket=2)]))


def test_a_slot_that_is_held_by_nobody_is_found() -> None:
    """Once all is quiet, no slot may be taken, not even by leftovers."""
    pool = prefix("default")
    held = Key(name=f"{pool}ns:node-1", ttl_ms=-1, parts={"!a": "5"})
    assert "node-1 still holds !a" in next(leaked([held], pool, {}))
    assert "2 slots in use" in next(leaked([], pool, {"node-1": 2}))


def test_keys_without_owner_or_lifetime_are_found() -> None:
    """A record of an ended session must go some day; the line may stay."""
    pool = prefix("default")
    lasting = [Key(name=line_key("default"), ttl_ms=-1, parts={})]
    assert not list(strange_keys(lasting))
    assert "no owner" in next(strange_keys([Key(name=f"{pool}x", ttl_ms=5, parts={})]))
    assert "no lifetime" in next(strange_keys([Key(name=f"{pool}s:a", ttl_ms=-1, parts={})]))


def test_readmission_counts_from_the_kill() -> None:
    """Until the session is in line again, and until it has a slot again."""
    kill = Done(
        kind=Kind.KILL,
        target="node-1",
        began_at_s=NOW_S,
        began_at_ms=NOW_MS + 100,
        ended_at_s=NOW_S,
        ended_at_ms=NOW_MS + 200,
        lost_s=0.0,
        lost_bytes=0,
    )
    found = figures(
        [
            event(0, "assigned", "a", node_id="node-1", epoch=1),
            event(50, "running", "a", node_id="node-1", epoch=1),
            event(3100, "returned", "a", node_id="node-1", epoch=2, why="node_died"),
            event(3600, "assigned", "a", node_id="node-2", epoch=3),
        ],
        [kill],
    )
    assert (found.readmitted_ms, found.placed_again_ms) == ([3000], [3500])


def test_a_slot_is_idle_only_while_somebody_waits() -> None:
    """A free slot that nobody wants isn't idle time between two users."""
    taken = [
        event(0, "queued", "a", ticket=1),
        event(1, "assigned", "a", node_id="node-1", epoch=1),
        event(500, "draining", "a", node_id="node-1", epoch=1),
        event(510, "ended", "a", node_id="node-1", epoch=1),
    ]
    late = event(900, "queued", "b", ticket=2)
    placed = event(910, "assigned", "b", node_id="node-1", epoch=2)
    assert figures([*taken, late, placed], []).slot_idle_ms == []
    early = event(300, "queued", "b", ticket=2)
    waited = figures([*taken[:2], early, *taken[2:], placed], [])
    assert waited.slot_idle_ms == [400]


def test_a_node_that_plays_more_sessions_than_it_has_slots_is_found() -> None:
    """One after another is fine, three at once on two slots isn't."""

    def played(session_id: str, began_s: float, ended_s: float) -> list[Frame]:
        return [Frame(at_s, session_id, "node-1", 10, 1) for at_s in (began_s, ended_s)]

    two = [*played("a", 1.0, 3.0), *played("b", 1.0, 5.0)]
    assert not list(crowded([*two, *played("c", 3.1, 6.0)], slots=2))
    assert "beside ['a', 'b']" in next(crowded([*two, *played("c", 2.0, 6.0)], slots=2))


def test_somebody_who_stayed_is_played_to_the_end() -> None:
    """No timeout may end the session of a guest who was there."""
    late = visit(NOW_S, end="expired controller_timeout")
    joined = event(0, "joining_room", "a")
    assert not list(unjust([visit(NOW_S)], [joined]))
    assert "controller_timeout" in next(unjust([late], [joined]))
    before = event(-2000, "joining_room", "a")
    assert not list(unjust([late], [before])), "it didn't know of its session yet"
