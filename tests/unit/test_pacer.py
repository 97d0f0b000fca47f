"""When does each frame leave?"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.pacer import Pacer

FPS = st.floats(1.0, 120.0)
STEPS = st.lists(st.tuples(st.floats(0.0, 0.5), FPS), min_size=2, max_size=60)


def test_small_delays_dont_add_up() -> None:
    """Each frame is due one interval after the one before was due, not after it left."""
    pacer = Pacer()
    dues = [pacer.due_s(index * 0.1 + 0.03 * (index % 3), fps=10) for index in range(30)]
    assert dues == pytest.approx([index * 0.1 for index in range(30)])


def test_a_frame_late_by_more_than_an_interval_starts_the_clock_again() -> None:
    """The lost time is lost: no burst makes up for it."""
    pacer = Pacer()
    assert pacer.due_s(0.0, fps=10) == 0.0
    assert pacer.due_s(0.19, fps=10) == pytest.approx(0.1)
    assert pacer.due_s(1.0, fps=10) == 1.0
    assert pacer.due_s(1.0, fps=10) == pytest.approx(1.1)


def test_a_restart_forgets_the_clock() -> None:
    """After a silence the next frame leaves when it comes."""
    pacer = Pacer()
    pacer.due_s(0.0, fps=10)
    pacer.restart()
    assert pacer.due_s(0.01, fps=10) == 0.01


def play(steps: list[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Play frames: each is made ready after a delay and leaves when due; (ready, due, interval)."""
    pacer, now_s, played = Pacer(), 100.0, []
    for delay_s, fps in steps:
        now_s += delay_s
        due_s = pacer.due_s(now_s, fps)
        played.append((now_s, due_s, 1 / fps))
        now_s = max(now_s, due_s)
    return played


@given(STEPS)
def test_frames_are_at_least_their_interval_apart(steps: list[tuple[float, float]]) -> None:
    """Due times never crowd: a frame is shown as long as its fps says."""
    played = play(steps)
    for (_, due_s, interval_s), (_, next_due_s, _) in pairwise(played):
        assert next_due_s >= due_s + interval_s - 1e-9


@given(STEPS)
def test_no_frame_waits_longer_than_one_interval(steps: list[tuple[float, float]]) -> None:
    """A frame that is ready leaves within the interval of the one before it."""
    played = play(steps)
    for (_, _, interval_s), (ready_s, due_s, _) in pairwise(played):
        assert due_s <= ready_s + interval_s + 1e-9


@given(STEPS)
def test_the_clock_is_never_further_behind_than_one_interval(
    steps: list[tuple[float, float]],
) -> None:
    """So at most one frame follows another at once."""
    played = play(steps)
    for (_, _, interval_s), (ready_s, due_s, _) in pairwise(played):
        assert due_s >= ready_s - interval_s - 1e-9
