"""Do tables, durations, moments and signs read as the look of the house wants it?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from control_plane.cli.moments import moment_ms
from control_plane.cli.rows import squares
from control_plane.cli.tables import WIDTH, Cell, Column, drawn, finely, hanging
from control_plane.cli.words import session_sign
from control_plane.operator_words import (
    ENDED_BECAUSE,
    event_words,
    node_troubles,
    ordinal,
    room_words,
    spell,
)
from shared.errors import StartupError
from shared.facts import NodeFacts
from shared.node_profile import NodeProgress
from shared.states import Reason, SessionState
from shared.store.replies import progress_json
from tests.support.made_facts import NOW_MS, member, node, session, waiting


def slots(taken: int = 0, quarantined: int = 0, capacity: int = 0) -> NodeFacts:
    """A node with some slots taken."""
    members = [member(str(number), quarantined=number < quarantined) for number in range(taken)]
    return node(*members, capacity=str(capacity))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 m 0 s"), (192, "3 m 12 s"),
        (3840, "1 h 04 m"), (90_000, "25 h 00 m"),
    ],
)  # fmt: skip
def test_durations_are_said_as_on_the_pages(seconds: float, text: str) -> None:
    """Two units at most."""
    assert spell(seconds) == text


def test_short_durations_keep_tenths() -> None:
    """Where the time went is often a matter of tenths."""
    assert (finely(0.44), finely(9.96), finely(61)) == ("0.4 s", "10.0 s", "1 m 1 s")


def test_a_table_fits_a_hundred_columns() -> None:
    """What may be cut is cut, from the right; names stay whole."""
    columns = (
        Column(title="NAME"),
        Column(title="SERVICE", may_shrink=True),
        Column(title="AGE", numeric=True),
        Column(title="NOTE", may_shrink=True),
    )
    rows = [[Cell("n" * 59), Cell("service.py"), Cell("12 s"), Cell("closed by an operator " * 4)]]
    lines = list(drawn(columns, rows))
    assert max(map(len, lines)) <= WIDTH
    assert lines[1].startswith("n" * 59 + "  service.py")
    assert lines[1].endswith("…")


def test_a_column_without_content_is_left_out() -> None:
    """Nobody reads an empty one."""
    columns = (Column(title="A"), Column(title="NOTE"))
    assert list(drawn(columns, [[Cell("x"), Cell("")]])) == ["A", "x"]


def test_colour_is_added_to_words_and_shapes() -> None:
    """Only on demand; without it the same text stands there."""
    rows = [[session_sign(waiting(position=2))]]
    plain = list(drawn((Column(title="STATE"),), rows))[1]
    coloured = list(drawn((Column(title="STATE"),), rows, coloured=True))[1]
    assert plain == "○ 2nd in line"
    assert "\x1b[" in coloured
    assert plain in coloured


def test_long_sentences_go_on_below_themselves() -> None:
    """Set in as far as their beginning."""
    lines = list(hanging("12:00:01  ", "word " * 40))
    assert max(map(len, lines)) <= WIDTH
    assert [line[:10] for line in lines[1:]] == [" " * 10] * (len(lines) - 1)
    assert list(hanging("  ", "x" * 120)) == ["  " + "x" * 120]


def test_every_state_has_a_word_and_a_shape() -> None:
    """A running session without a frame isn't on stage yet."""
    signs = {state: session_sign(session(state=state)).text for state in SessionState}
    assert all(text[0] in "●◐○■▲" and text[1] == " " for text in signs.values())
    assert signs[SessionState.RUNNING] == "◐ no frame yet"
    playing = session(state="running", epoch="7", first_frame_epoch="7")
    assert session_sign(playing).text == "● on stage"
    moved = session(state="running", epoch="8", first_frame_epoch="7")
    assert session_sign(moved).text == "◐ no frame yet"
    assert session_sign(session()).text == "▲ no record"


def test_every_reason_has_words() -> None:
    """The closed set of the states."""
    assert ENDED_BECAUSE.keys() == set(Reason)


def test_slots_are_small_squares() -> None:
    """Taken, not confirmed as empty, free; many of them are only counted."""
    assert squares(slots(taken=3, quarantined=1, capacity=5)) == "■■▲□□ 3/5"
    assert squares(slots(taken=2, capacity=1)) == "■■ 2/1"
    assert squares(slots(taken=14, quarantined=2, capacity=128)) == "14/128 (▲ 2)"
    assert squares(slots(capacity=0)) == "0/0"


def test_a_node_says_everything_that_keeps_it_from_serving() -> None:
    """Its own words, the operator's and the registry's are kept apart."""
    troubled = node(
        state="error", admin="draining", draining="1", media_ok="0",
        rest=str(NOW_MS + 5_000), judged="suspect", strangers="2",
    )  # fmt: skip
    assert node_troubles(troubled, NOW_MS) == [
        "closed by an operator",
        "shuts down",
        "its model can't serve",
        "doesn't reach LiveKit",
        "rests 5 s after a failure",
        "holds 2 that aren't its own",
    ]
    well = node(state="idle", admin="open", draining="0", media_ok="1")
    assert node_troubles(well, NOW_MS) == []
    for told, words in (
        (
            NodeProgress(step="warming_up", seconds=192, attempt=2, line="compiling"),
            "still loads its model (warming up for 3 m 12 s, attempt 2): compiling",
        ),
        (NodeProgress(step="loading", seconds=1), "still loads its model (loading for 1 s)"),
    ):
        loading = node(state="loading", progress=progress_json(told))
        assert node_troubles(loading, NOW_MS) == [words]
    told = NodeProgress(step="failed", seconds=4, line="x", error="OSError: no card.")
    failed = node(state="error", progress=progress_json(told))
    assert node_troubles(failed, NOW_MS) == [
        "its model can't serve (failed for 4 s): OSError: no card."
    ]
    assert node_troubles(well, NOW_MS + 10_000) == ["silent"]


def test_events_are_sentences() -> None:
    """An unknown one keeps its own words: another release may write it."""
    said = event_words("returned", node="n1", why="node_died")
    assert said == "back in line with its old ticket, away from n1: the node died"
    assert event_words("ended", why="admin") == "ended: an operator ended it (admin)"
    assert event_words("newly_made", node="n1", why="x") == "newly_made n1 x"


def test_small_words() -> None:
    """Places and rooms."""
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "21st", "112th",
    ]  # fmt: skip
    assert room_words(None, None) == ""
    assert room_words(1, None) == "1 person in the room"
    assert room_words(0, None) == "room empty"
    assert room_words(0, 12.4) == "room empty for 12 s"


@pytest.mark.parametrize(
    ("text", "ago_s"), [("now", 0), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("2 d", 172_800)]
)
def test_a_time_so_long_ago(text: str, ago_s: float) -> None:
    """Seconds, minutes, hours, days."""
    assert moment_ms(text, now_ms=NOW_MS) == NOW_MS - ago_s * 1000


def test_a_time_of_the_day_is_the_last_one() -> None:
    """Never in the future."""
    here = datetime.fromtimestamp(NOW_MS / 1000, tz=UTC).astimezone()
    assert moment_ms(here.strftime("%H:%M:%S"), now_ms=NOW_MS) == NOW_MS
    later = moment_ms(here.strftime("%H:%M:%S"), now_ms=NOW_MS - 1000)
    assert NOW_MS - later in (86_400_000, 90_000_000, 82_800_000)


def test_a_date_and_unix_seconds() -> None:
    """A date without a zone is this machine's."""
    assert moment_ms("2027-01-15T08:00:00+00:00", now_ms=0) == NOW_MS
    assert moment_ms("1800000000.5", now_ms=0) == NOW_MS + 500


@pytest.mark.parametrize("text", ["99999999999h", "9" * 400 + "d", "1969-01-01T00:00"])
def test_a_time_before_all_times_is_the_first_one(text: str) -> None:
    """The registry's streams know none that is negative."""
    assert moment_ms(text, now_ms=NOW_MS) == 0


@pytest.mark.parametrize("text", ["soon", "10 parsecs", "25:00", "2027-13-01"])
def test_an_unreadable_time_is_one_sentence(text: str) -> None:
    """With something to try."""
    with pytest.raises(StartupError, match="no time that can be read") as refused:
        moment_ms(text, now_ms=NOW_MS)
    assert refused.value.try_ == "--since 10m"
