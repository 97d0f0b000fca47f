"""Which words and which shape tell an operator how something stands? Pure.

The same as on the pages: ● live, ◐ starting, ○ waiting, ■ ended, ▲ attention. Colour follows the
shape and is never the only sign.
"""

from __future__ import annotations

from enum import StrEnum

import typer

from control_plane.cli.tables import Cell
from control_plane.operator_words import has_first_frame, ordinal
from shared.facts import NodeFacts, SessionFacts
from shared.states import NodeState, SessionState


class Tone(StrEnum):
    """How something stands; the value is its shape."""

    LIVE = "●"
    STARTING = "◐"
    WAITING = "○"
    ENDED = "■"
    ATTENTION = "▲"


_COLOURS = {
    Tone.LIVE: typer.colors.GREEN,
    Tone.STARTING: typer.colors.CYAN,
    Tone.WAITING: typer.colors.YELLOW,
    Tone.ATTENTION: typer.colors.RED,
}

_SESSION_SIGNS = {
    SessionState.QUEUED: (Tone.WAITING, "in line"),
    SessionState.ASSIGNED: (Tone.STARTING, "setting up"),
    SessionState.JOINING_ROOM: (Tone.STARTING, "setting up"),
    SessionState.STARTING_PIPELINE: (Tone.STARTING, "starting"),
    SessionState.RUNNING: (Tone.LIVE, "on stage"),
    SessionState.DRAINING: (Tone.ENDED, "ending"),
    SessionState.CLOSED: (Tone.ENDED, "ended"),
    SessionState.EXPIRED: (Tone.ENDED, "ended"),
    SessionState.FAILED: (Tone.ENDED, "failed"),
}

_NODE_SIGNS = {
    NodeState.LOADING: (Tone.STARTING, "loading"),
    NodeState.IDLE: (Tone.WAITING, "idle"),
    NodeState.BUSY: (Tone.LIVE, "busy"),
    NodeState.ERROR: (Tone.ATTENTION, "error"),
    NodeState.DEAD: (Tone.ENDED, "dead"),
}


def sign(tone: Tone, words: str) -> Cell:
    """Return shape and words, in the colour of the shape."""
    return Cell(f"{tone} {words}", _COLOURS.get(tone))


def session_sign(session: SessionFacts) -> Cell:
    """Say how a session stands."""
    if session.state is None:
        return sign(Tone.ATTENTION, "no record")
    tone, words = _SESSION_SIGNS[session.state]
    if session.state is SessionState.QUEUED and session.position is not None:
        words = f"{ordinal(session.position)} in line"
    if session.state is SessionState.RUNNING and not has_first_frame(session):
        tone, words = Tone.STARTING, "no frame yet"
    return sign(tone, words)


def state_words(state: SessionState) -> str:
    """Return a session's state in words, without its shape."""
    return _SESSION_SIGNS[state][1]


def node_sign(node: NodeFacts) -> Cell:
    """Say how a node stands."""
    if not node.record:
        return sign(Tone.ATTENTION, "no record")
    return sign(*_NODE_SIGNS[NodeState(node.record["state"])])
