"""Is there room for exactly what may come next?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.orchestrator.windows import Window


def test_a_sequence_has_room_while_it_is_within_the_capacity_of_the_lowest_untaken() -> None:
    """Taking a later one makes none; taking the lowest makes it for all that were taken."""
    window = Window(3)
    assert [window.has_room(n) for n in range(4)] == [True, True, True, False]
    for sequence in range(3):
        window.put(sequence, sequence)
    window.take(1)
    assert not window.has_room(3)
    window.take(0)
    assert [window.has_room(n) for n in (3, 4, 5)] == [True, True, False]


@pytest.mark.parametrize("sequence", [2, 0])
def test_nothing_is_laid_down_where_it_has_no_place(sequence: int) -> None:
    """Past the window, or twice."""
    window = Window(2)
    window.put(0, "x")
    with pytest.raises(AssertionError, match=f"sequence {sequence} has no place"):
        window.put(sequence, "x")


@given(capacity=st.integers(1, 5), data=st.data())
def test_giving_back_undoes_a_take(capacity: int, data: st.DataObject) -> None:
    """Whatever was taken before and in whatever order, as if it had never been taken."""
    window = Window(capacity)
    for _ in range(data.draw(st.integers(0, 12))):
        for sequence in range(window.base, window.base + capacity):
            if sequence not in window.values and sequence not in window._ahead:
                window.put(sequence, sequence)
        window.take(data.draw(st.sampled_from(sorted(window.values))))
    if not window.values:
        window.put(window.base, window.base)

    def state() -> tuple[Any, ...]:
        return window.base, dict(window.values), set(window._ahead)

    before = state()
    sequence = data.draw(st.sampled_from(sorted(window.values)))
    window.give_back(sequence, window.take(sequence))
    assert state() == before
