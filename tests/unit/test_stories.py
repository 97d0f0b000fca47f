"""Is one session's story told as it happened?"""

from __future__ import annotations

from dataclasses import replace

from control_plane.stories import Phase, holders_of, obstacles_of, room_of, story_of
from shared.events import Event, event, place_of
from tests.support.made_facts import NOW_MS, ended, member, node, pool, resident, waiting


def trail(*told: tuple[float, str, str, str]) -> list[Event]:
    """Entries at so many seconds: what, the session or '-', node and why as ``n1 why``."""
    entries = []
    for number, (at_s, what, name, rest) in enumerate(told, 1):
        node_id, _, why = rest.partition(" ")
        entries.append(
            Event(
                id=f"{number}-0",
                what=what,
                at_ms=round(at_s * 1000),
                session_id="" if name == "-" else name,
                node_id=node_id,
                why=why,
            )
        )
    return entries


MOVED = trail(
    (0, "queued", "a", ""),
    (1, "queued", "b", ""),
    (10, "assigned", "a", "n1"),
    (11, "joining_room", "a", "n1"),
    (13, "starting_pipeline", "a", "n1"),
    (16, "running", "a", "n1"),
    (16.5, "first_frame", "a", "n1"),
    (40, "returned", "a", "n1 node_died"),
    (40, "node_died", "-", "n1"),
    (40, "node_died", "-", "n9"),
    (42, "assigned", "a", "n2"),
    (42.5, "joining_room", "a", "n2"),
    (43, "starting_pipeline", "a", "n2"),
    (45, "running", "a", "n2"),
    (45.25, "first_frame", "a", "n2"),
    (60, "draining", "a", "n2 client_stop"),
    (61, "ended", "a", "n2 client_stop"),
)


def test_the_time_goes_where_it_went() -> None:
    """Both turns together: in line, set up, starting, until the first frame, played, ending."""
    story = story_of("a", MOVED, now_ms=99_000)
    assert story.complete
    assert story.spent_s == {
        Phase.WAITING: 12.0,
        Phase.JOINING: 4.0,
        Phase.STARTING: 5.0,
        Phase.TO_FIRST_FRAME: 0.75,
        Phase.PLAYED: 38.25,
        Phase.ENDING: 1.0,
    }


def test_what_died_belongs_to_the_story() -> None:
    """The death of the node that had it, not of another one."""
    story = story_of("a", MOVED, now_ms=99_000)
    told = [(step.what, step.node_id, step.lasted_s) for step in story.steps]
    assert told[6:10] == [
        ("returned", "n1", 2.0),
        ("node_died", "n1", None),
        ("assigned", "n2", 0.5),
        ("joining_room", "n2", 0.5),
    ]
    assert told[-1] == ("ended", "n2", None)


def test_a_countdown_that_is_called_off_is_told() -> None:
    """Only of the node that counts down with it, and only while it does."""
    entries = trail(
        (0, "queued", "a", ""),
        (0, "assigned", "a", "n1"),
        (1, "node_admin", "-", "n1 draining"),
        (2, "node_drain", "-", "n1 60"),
        (3, "node_admin", "-", "n2 open"),
        (4, "node_admin", "-", "n1 open"),
        (5, "node_admin", "-", "n1 draining"),
        (6, "node_drain", "-", "n1 5"),
        (11, "returned", "a", "n1 node_drained"),
        (12, "node_admin", "-", "n1 open"),
    )
    story = story_of("a", entries, now_ms=20_000)
    told = [(step.at_ms, step.what) for step in story.steps if step.what.startswith("node")]
    assert told == [(2_000, "node_drain"), (4_000, "node_admin"), (6_000, "node_drain")]


def test_what_goes_on_counts_until_now() -> None:
    """A waiting session has waited until this moment."""
    story = story_of("b", MOVED, now_ms=99_000)
    assert story.spent_s[Phase.WAITING] == story.steps[-1].lasted_s == 98.0


def test_a_beginning_that_was_trimmed_is_said() -> None:
    """What is known is still told."""
    story = story_of("a", MOVED[3:], now_ms=99_000)
    assert not story.complete
    assert story.spent_s[Phase.WAITING] == 2.0


def test_the_time_of_an_adopted_session_is_known_from_then_on() -> None:
    """Redis had lost all of it; a new epoch on the same node is no new phase, nor is a credit."""
    story = story_of(
        "a",
        trail(
            (5, "adopted", "a", "n1 running"),
            (25, "rebased", "a", "n1"),
            (30, "credited", "a", "n1 2365"),
            (35, "draining", "a", "n1 admin"),
            (36, "ended", "a", "n1 admin"),
        ),
        now_ms=99_000,
    )
    assert not story.complete
    assert (story.spent_s[Phase.PLAYED], story.spent_s[Phase.ENDING]) == (30.0, 1.0)


def test_a_clock_that_was_set_back_takes_nothing_away() -> None:
    """No phase is shorter than nothing."""
    told = trail((100, "queued", "a", ""), (40, "assigned", "a", "n1"))
    assert story_of("a", told, now_ms=45_000).spent_s[Phase.WAITING] == 0.0


def test_an_unknown_session_has_no_steps() -> None:
    """Nothing is made up."""
    story = story_of("x", MOVED, now_ms=99_000)
    assert (story.steps, story.complete) == ((), False)


def test_a_slot_does_nothing_while_nobody_is_in_the_room() -> None:
    """For how long follows from the timer that runs: the controller's, or else the room's."""
    away = resident(participants="0", t_controller=str(NOW_MS + 48_000), d_controller="60000")
    assert room_of(away, NOW_MS) == (0, 12.0)
    empty = resident(participants="0", t_room_empty=str(NOW_MS + 10_000), d_room_empty="30000")
    assert room_of(empty, NOW_MS) == (0, 20.0)
    assert room_of(resident(participants="0"), NOW_MS) == (0, None)
    assert room_of(resident(participants="3"), NOW_MS) == (3, None)
    assert room_of(resident(connected="0"), NOW_MS) == (None, None)
    assert room_of(waiting(), NOW_MS) == (None, None)


def test_holders_stand_longest_empty_first() -> None:
    """Then those that hold a slot for longest; leftovers of ended ones, too."""
    empty = resident(
        "a", participants="0", assigned=str(NOW_MS - 20_000),
        t_controller=str(NOW_MS + 59_000), d_controller="60000",
    )  # fmt: skip
    long = resident("b", participants="1", assigned=str(NOW_MS - 90_000))
    left = ended("c", assigned=str(NOW_MS - 5_000))
    nodes = (node(member("b"), member("c", quarantined=True)), node(member("a"), name="n2"))
    told = holders_of(pool(empty, long, left, nodes=nodes))
    assert [(one.session_id, one.node_id, one.held_s, one.empty_s) for one in told] == [
        ("a", "n2", 20.0, 1.0),
        ("b", "n1", 90.0, None),
        ("c", "n1", 5.0, None),
    ]
    assert [one.quarantined for one in told] == [False, False, True]


def test_what_a_waiting_session_waits_for() -> None:
    """Who is before it, which slots are taken, and which nodes are given nothing."""
    me = waiting("w", position=2)
    nodes = (
        node(member("a"), member("b")),
        replace(node(name="n2", admin="draining"), free_score=None),
        replace(node(name="n3", state="loading"), free_score=None),
    )
    told = obstacles_of(me, pool(resident("a"), resident("b"), nodes=nodes), ["v"])
    assert told is not None
    assert (told.position, told.ahead, told.slots, told.taken) == (2, ("v",), 2, 2)
    assert [one.node_id for one in told.closed] == ["n2", "n3"]
    assert not told.servable


def test_a_free_slot_is_about_to_be_taken() -> None:
    """And who doesn't wait has nothing to wait for."""
    facts = pool(nodes=(node(member("a")),))
    told = obstacles_of(waiting(), facts, [])
    assert told is not None
    assert (told.servable, told.slots, told.taken) == (True, 2, 1)
    assert obstacles_of(resident(), facts, []) is None


def test_entries_are_decoded() -> None:
    """Numbers are numbers, what doesn't apply is absent, also for programs."""
    told = event("1800-2", {"what": "assigned", "sid": "a", "ticket": "5", "node": "n1",
                            "epoch": "7", "ver": "8", "at": "1800", "why": ""})  # fmt: skip
    assert (told.place, told.ticket, told.epoch, told.version) == ((1800, 2), 5, 7, 8)
    assert told.as_dict() == {
        "id": "1800-2", "at": 1.8, "what": "assigned", "session_id": "a", "ticket": 5,
        "node_id": "n1", "epoch": 7, "version": 8,
    }  # fmt: skip
    assert place_of("2-0") > place_of("1-99")
