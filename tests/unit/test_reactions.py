"""How soon does a picture answer a control?"""

from __future__ import annotations

import pytest

from gpu_node.reactions import Reactions
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is moved by hand."""
    return ManualClock()


@pytest.fixture
def reactions(clock: ManualClock) -> Reactions:
    """A session on that clock."""
    return Reactions(clock.monotonic_s)


def test_a_chunk_begun_after_the_control_answers_it(
    reactions: Reactions, clock: ManualClock
) -> None:
    """The time runs from the control to the first picture, and only that one counts."""
    reactions.control()
    clock.move(0.1)
    began_s = clock.monotonic_s()
    clock.move(0.4)
    reactions.chunk(began_s)
    assert reactions.picture() == pytest.approx(0.5)
    assert reactions.picture() is None


def test_a_chunk_that_was_in_the_making_answers_nothing(
    reactions: Reactions, clock: ManualClock
) -> None:
    """Its pictures leave after the control and know nothing of it; the next chunk's do."""
    began_s = clock.monotonic_s()
    clock.move(0.1)
    reactions.control()
    reactions.chunk(began_s)
    assert reactions.picture() is None
    clock.move(0.2)
    reactions.chunk(clock.monotonic_s())
    assert reactions.picture() == pytest.approx(0.2)


def test_the_oldest_of_several_controls_is_the_one_that_waited(
    reactions: Reactions, clock: ManualClock
) -> None:
    """One picture answers them together, and none is left over."""
    for _ in range(3):
        reactions.control()
        clock.move(0.1)
    reactions.chunk(clock.monotonic_s())
    assert reactions.picture() == pytest.approx(0.3)
    reactions.chunk(clock.monotonic_s())
    assert reactions.picture() is None


def test_a_chunk_without_a_picture_leaves_the_answer_to_the_next(
    reactions: Reactions, clock: ManualClock
) -> None:
    """Sound alone is no picture."""
    reactions.control()
    reactions.chunk(clock.monotonic_s())
    clock.move(1)
    reactions.chunk(clock.monotonic_s())
    assert reactions.picture() == pytest.approx(1)


def test_a_flood_of_controls_is_bounded(reactions: Reactions, clock: ManualClock) -> None:
    """A service that never makes a chunk costs no memory."""
    for _ in range(10_000):
        reactions.control()
    assert len(reactions._came_s) == 256
