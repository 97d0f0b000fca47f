"""What a follower of a session is told: the present first, each change once, nothing older."""

from __future__ import annotations

from typing import Any

from control_plane.estimates import Estimate
from control_plane.session_news import DOUBTED_FOR_S, News, Sight, Telling
from shared.records import SessionRecord
from shared.states import Reason, SessionState

NOW_S = 1000.0


def record(state: str, version: int, **known: Any) -> SessionRecord:
    """A session in *state*; waiting ones are at the head unless the test says otherwise."""
    facts: dict[str, Any] = {
        "session_id": "default-" + "a" * 26,
        "state": SessionState(state),
        "identity": "ann",
        "ticket": 1,
        "epoch": 0,
        "version": version,
        "attempt": 1,
        "created_at_s": 1.0,
        "updated_at_s": 1.0,
        "position": 1 if state == "queued" else None,
    }
    return SessionRecord(**(facts | known))


def told(telling: Telling, seen: SessionRecord | None, **more: Any) -> list[tuple[str, int | None]]:
    """Show a record and return what is told, by event and id."""
    return [(news.event, news.id) for news in news_of(telling, seen, **more)]


def news_of(
    telling: Telling,
    seen: SessionRecord | None,
    *,
    now_s: float = NOW_S,
    estimate: Estimate | None = None,
) -> list[News]:
    """Show a record and return what is told."""
    return telling.of(Sight(record=seen, estimate=estimate), now_s)


def minutes(middle_s: float) -> Estimate:
    """An estimate around *middle_s*."""
    return Estimate(middle_s=middle_s, low_s=middle_s / 2, high_s=middle_s * 2)


def test_the_present_state_comes_first() -> None:
    """Whatever it is, with its version as id."""
    assert told(Telling(), record("queued", 5)) == [("queued", 5)]
    assert told(Telling(), record("assigned", 6)) == [("assigned", 6)]
    assert told(Telling(), record("running", 9)) == [("state", 9)]
    assert told(Telling(), record("closed", 12, reason=Reason.COMPLETED)) == [("ended", 12)]


def test_each_change_is_told_once() -> None:
    """The same record again is no news."""
    telling = Telling()
    way = [record("queued", 1), record("assigned", 2), record("joining_room", 3)]
    way += [record("running", 5), record("draining", 7, reason=Reason.CLIENT_STOP)]
    events = []
    for step in way:
        events += told(telling, step)
        assert told(telling, step) == []
    assert events == [("queued", 1), ("assigned", 2), ("state", 3), ("state", 5), ("state", 7)]
    assert told(telling, record("closed", 8, reason=Reason.CLIENT_STOP)) == [("ended", 8)]
    assert telling.is_over


def test_a_change_that_nobody_can_see_is_no_news() -> None:
    """The first frame raises the version of a running session and nothing else."""
    telling = Telling()
    told(telling, record("running", 5))
    assert told(telling, record("running", 6)) == []


def test_a_place_is_told_when_it_changes_and_carries_no_id() -> None:
    """It isn't a change of the session; who comes back gets the place of then."""
    telling = Telling()
    assert told(telling, record("queued", 1, position=3)) == [("queued", 1)]
    assert told(telling, record("queued", 1, position=3)) == []
    (news,) = news_of(telling, record("queued", 1, position=2))
    assert (news.event, news.id, news.data["position"]) == ("queued", None, 2)


def test_an_estimate_is_told_anew_when_a_countdown_is_off() -> None:
    """A client counts down by itself; only a surprise is worth a word."""
    telling, waiting = Telling(), record("queued", 1)
    news_of(telling, waiting, estimate=minutes(100))
    assert news_of(telling, waiting, now_s=NOW_S + 30, estimate=minutes(75)) == []
    (news,) = news_of(telling, waiting, now_s=NOW_S + 31, estimate=minutes(200))
    assert (news.data["eta"], news.data["eta_range"]) == (200, [100, 400])
    (news,) = news_of(telling, waiting, now_s=NOW_S + 32)
    assert news.data["eta"] is None


def test_a_return_to_the_line_is_told_with_its_cause_and_the_place() -> None:
    """Then the new assignment, and that it resumed, each under the new epoch."""
    telling = Telling()
    told(telling, record("running", 5, epoch=10, node_id="n1"))
    back: dict[str, Any] = {"attempt": 2, "returned_because": "node_died"}
    (news,) = news_of(telling, record("queued", 6, epoch=11, **back))
    assert (news.event, news.id) == ("requeued", 6)
    assert (news.data["reason"], news.data["position"], news.data["epoch"]) == ("node_died", 1, 11)
    assert told(telling, record("assigned", 7, epoch=12, **back)) == [("assigned", 7)]
    (news,) = news_of(telling, record("running", 9, epoch=12, **back))
    assert (news.event, news.data["epoch"]) == ("resumed", 12)


def test_a_return_that_nobody_saw_is_told_all_the_same() -> None:
    """It was placed again in the same instant; the id comes with the last of the two."""
    telling = Telling()
    told(telling, record("running", 5))
    moved = record("assigned", 7, epoch=12, attempt=2, returned_because="node_died")
    assert told(telling, moved) == [("requeued", None), ("assigned", 7)]


def test_who_comes_back_gets_what_is_newer_and_nothing_else() -> None:
    """What it has isn't told twice, but a waiting client gets its place of now."""
    assert told(Telling(5), record("running", 5)) == []
    assert told(Telling(5), record("running", 7)) == [("state", 7)]
    assert told(Telling(5), record("queued", 5)) == [("queued", None)]


def test_who_comes_back_after_the_end_has_nothing_to_wait_for() -> None:
    """But an end that it doesn't know is told."""
    ended = record("closed", 8, reason=Reason.ADMIN)
    assert Telling(8).knows_the_end(ended)
    assert not Telling(7).knows_the_end(ended)
    assert not Telling().knows_the_end(ended)
    assert not Telling(8).knows_the_end(record("running", 8))


def test_a_record_that_lost_data_is_told_only_when_it_stays_so() -> None:
    """Nodes report what they play within seconds; until then the client keeps what it knows."""
    telling = Telling(9)
    old = record("queued", 4)
    assert told(telling, old) == []
    assert told(telling, old, now_s=NOW_S + DOUBTED_FOR_S - 1) == []
    assert told(telling, record("running", 12), now_s=NOW_S + DOUBTED_FOR_S) == [("state", 12)]


def test_lost_data_that_stays_lost_is_told_without_an_id() -> None:
    """The present is the truth, and the client's id never goes back."""
    telling = Telling(9)
    assert told(telling, record("queued", 4)) == []
    assert told(telling, record("queued", 4), now_s=NOW_S + DOUBTED_FOR_S) == [("queued", None)]
    assert told(telling, record("queued", 4), now_s=NOW_S + DOUBTED_FOR_S + 1) == []
    assert told(telling, record("assigned", 20), now_s=NOW_S + 20) == [("assigned", 20)]


def test_a_session_that_is_gone_for_good_ends() -> None:
    """All data was lost and no node has it: the client is told to ask again."""
    telling = Telling()
    told(telling, record("queued", 5))
    assert told(telling, None) == []
    (news,) = news_of(telling, None, now_s=NOW_S + DOUBTED_FOR_S)
    assert (news.event, news.id, news.data["reason"]) == ("ended", None, "unknown_session")
    assert telling.is_over
