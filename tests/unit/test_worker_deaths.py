"""Does a node give up on a model that keeps dying, and never because of one session?"""

from __future__ import annotations

from gpu_node.worker.deaths import Deaths


def died(*sessions: str, served_s: float = 1.0, deaths: Deaths) -> bool:
    """Note one death; whether the node gives up now."""
    deaths.note(served_s=served_s, sessions=frozenset(sessions))
    return deaths.is_too_many


def test_three_deaths_in_a_row_are_the_nodes_own_fault() -> None:
    """With no session there, or each time another one."""
    deaths = Deaths()
    assert [died(deaths=deaths) for _ in range(4)] == [False, False, True, True]
    deaths = Deaths()
    assert [died(name, deaths=deaths) for name in "abc"] == [False, False, True]


def test_a_session_that_was_there_each_time_is_to_blame_itself() -> None:
    """The registry ends it; the node goes on for the others."""
    deaths = Deaths()
    assert not any(died("poison", name, deaths=deaths) for name in "abcdef")


def test_after_a_poison_session_the_row_begins_anew() -> None:
    """Three deaths without it are three deaths without it."""
    deaths = Deaths()
    for _ in range(3):
        assert not died("poison", deaths=deaths)
    assert [died(name, deaths=deaths) for name in "abc"] == [False, False, True]


def test_a_child_that_served_for_a_minute_has_shown_that_it_can() -> None:
    """Now and then is no row."""
    deaths = Deaths()
    assert not any(died(served_s=61.0, deaths=deaths) for _ in range(5))


def test_the_pause_grows_with_the_row() -> None:
    """And starts small, since somebody waits."""
    deaths, pauses = Deaths(), []
    for number in range(7):
        died(str(number), deaths=deaths)
        pauses.append(deaths.pause_s)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    died("a", served_s=100.0, deaths=deaths)
    assert deaths.pause_s == 0.5
