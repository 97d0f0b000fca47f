"""Is a child that is stuck found, and no other one killed?"""

from __future__ import annotations

import pytest

from gpu_node.worker.watch import LOOK_EVERY_S, ChildWatch, Wanted

IDLE = Wanted(anything=False, is_coming_up=False, is_beginning=False)
PLAYING = Wanted(anything=True, is_coming_up=False, is_beginning=False)
COMING_UP = Wanted(anything=True, is_coming_up=True, is_beginning=False)
BEGINNING = Wanted(anything=True, is_coming_up=False, is_beginning=True)


def found_after_s(watch: ChildWatch, wanted: Wanted, *, loop_age_s: float | None = None) -> float:
    """Look until the child is found stuck; it says its loop's age, or nothing at all."""
    for look in range(1, 1000):
        if loop_age_s is not None:
            watch.hear(loop_age_s=loop_age_s + look * LOOK_EVERY_S)
        if watch.look(wanted):
            return look * LOOK_EVERY_S
    return float("inf")


def test_a_silent_child_of_which_something_is_wanted_is_stuck_after_ten_seconds() -> None:
    """Somebody's code never lets go of the interpreter."""
    assert found_after_s(ChildWatch(), PLAYING) == 10.0


def test_a_child_of_which_nothing_is_wanted_may_be_silent() -> None:
    """And its silence isn't held against it when something is."""
    watch = ChildWatch()
    assert found_after_s(watch, IDLE) == float("inf")
    assert found_after_s(watch, PLAYING) == 10.0


def test_a_service_loop_that_stands_is_stuck_though_the_child_speaks() -> None:
    """A call that must be quick never returns."""
    assert found_after_s(ChildWatch(), PLAYING, loop_age_s=0.0) == 10.0


def test_a_slow_chunk_is_no_stuck_child() -> None:
    """As long as the loops turn, the service may take its time."""
    watch = ChildWatch()
    for _ in range(200):
        watch.hear(loop_age_s=0.4)
        assert watch.look(PLAYING) is None


@pytest.mark.parametrize(("own_s", "found_s"), [(0.0, 10.0), (60.0, 60.0)])
def test_a_beginning_may_take_as_long_as_the_service_says(own_s: float, found_s: float) -> None:
    """A first chunk may compile a model on the loop."""
    watch = ChildWatch()
    watch.start_timeout_s = own_s
    assert found_after_s(watch, BEGINNING, loop_age_s=0.0) == found_s


def test_what_comes_up_may_be_silent_for_two_minutes() -> None:
    """Weights are read by code that doesn't let go of the interpreter for long."""
    assert found_after_s(ChildWatch(), COMING_UP) == 120.0


def test_a_warm_up_may_keep_the_service_loop_for_as_long_as_it_likes() -> None:
    """It has limits of its own, and may compile a model there."""
    assert found_after_s(ChildWatch(), COMING_UP, loop_age_s=0.0) == float("inf")
