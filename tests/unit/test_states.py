"""The tables of states: complete, closed, and nothing leaves an end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shared.errors import IllegalMove
from shared.states import (
    ACTIVITY_MOVES,
    ENDED_AS,
    ENDED_STATES,
    NODE_MOVES,
    RESIDENT_STATES,
    SESSION_MOVES,
    Activity,
    NodeState,
    Reason,
    SessionState,
    move,
    sources_of,
)

LIVE = set(SessionState) - ENDED_STATES


def test_every_state_stands_in_its_table() -> None:
    """A new state without moves would be a trap."""
    assert set(SESSION_MOVES) == set(SessionState)
    assert set(NODE_MOVES) == set(NodeState)
    assert set(ACTIVITY_MOVES) == set(Activity)


def test_an_end_is_absorbing() -> None:
    """Nothing leads out of closed, expired or failed."""
    assert all(not SESSION_MOVES[state] for state in ENDED_STATES)


def test_every_live_session_can_end() -> None:
    """From everywhere there is a way to each end."""
    for state in LIVE:
        reached, frontier = set[SessionState](), {state}
        while frontier:
            reached |= frontier
            frontier = {to for one in frontier for to in SESSION_MOVES[one]} - reached
        assert reached >= ENDED_STATES


def test_a_session_takes_one_step_after_the_other() -> None:
    """Only the next state forward, back to the line, or out."""
    way = [state for state in SessionState if state in LIVE]
    for here, following in pairwise(way):
        forward = set(SESSION_MOVES[here]) - {SessionState.QUEUED, *ENDED_STATES}
        assert forward == {following, SessionState.DRAINING}


def test_draining_only_ends() -> None:
    """R8: it never goes back."""
    assert set(SESSION_MOVES[SessionState.DRAINING]) == set(ENDED_STATES)


def test_residents_are_those_who_hold_a_slot() -> None:
    """Live and not waiting."""
    without_slot = LIVE - RESIDENT_STATES
    assert without_slot == {SessionState.QUEUED}


def test_every_reason_belongs_to_one_end() -> None:
    """And each end has reasons."""
    assert set(ENDED_AS) == set(Reason)
    assert set(ENDED_AS.values()) == set(ENDED_STATES)


def test_who_may_become_what_is_read_from_the_table() -> None:
    """Scripts get these as their guard."""
    assert sources_of(SESSION_MOVES, SessionState.RUNNING) == (SessionState.STARTING_PIPELINE,)
    assert set(sources_of(SESSION_MOVES, SessionState.DRAINING)) == LIVE - {SessionState.DRAINING}


def test_a_legal_move_is_its_target_and_an_illegal_one_is_refused() -> None:
    """Nothing else happens."""
    running, queued = SessionState.RUNNING, SessionState.QUEUED
    assert move(SESSION_MOVES, running, queued) is queued
    with pytest.raises(IllegalMove, match="SessionState can't go from queued to running"):
        move(SESSION_MOVES, queued, running)


def test_a_dead_node_comes_back_only_by_registering() -> None:
    """It loads first."""
    assert set(NODE_MOVES[NodeState.DEAD]) == {NodeState.LOADING}
