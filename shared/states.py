"""Which states exist, and which moves are legal?

This file is the only table. Lua scripts get the allowed previous states as an argument, the
diagrams in ``shared/README.md`` are drawn from here, and the HTTP API uses the same words. A state
machine is a mapping ``state -> {next state: cause}``; a state without an entry inside is terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from shared.errors import IllegalMove


class SessionState(StrEnum):
    """Where a session is on its way; also the status words of the HTTP API."""

    QUEUED = "queued"
    """It waits in line, holds its ticket and no slot."""
    ASSIGNED = "assigned"
    """A slot on a node is its own; the node hasn't said yet that it knows."""
    JOINING_ROOM = "joining_room"
    """The node has it: the worker joins the room and waits for the controller."""
    STARTING_PIPELINE = "starting_pipeline"
    """The model service makes its pipeline session."""
    RUNNING = "running"
    """The pipeline session exists and its output is being played."""
    DRAINING = "draining"
    """It is ending; the slot stays taken until the node has cleaned up."""
    CLOSED = "closed"
    """It ended as it should."""
    EXPIRED = "expired"
    """A time limit ended it."""
    FAILED = "failed"
    """An error ended it."""


class Reason(StrEnum):
    """Why a session ended: a closed set, each member belongs to exactly one terminal state."""

    CLIENT_STOP = "client_stop"
    COMPLETED = "completed"
    ADMIN = "admin"
    NODE_SHUTDOWN = "node_shutdown"
    SESSION_TIMEOUT = "session_timeout"
    CONTROLLER_TIMEOUT = "controller_timeout"
    ROOM_EMPTY = "room_empty"
    QUEUE_ABANDONED = "queue_abandoned"
    PAUSE_TIMEOUT = "pause_timeout"
    TALK_TIMEOUT = "talk_timeout"
    CONTEXT_FULL = "context_full"
    JOIN_TIMEOUT = "join_timeout"
    START_TIMEOUT = "start_timeout"
    RECOVERY_LIMIT = "recovery_limit"
    SERVICE_ERROR = "service_error"
    LIVEKIT_ERROR = "livekit_error"
    INVALID_CONFIG = "invalid_config"


class NodeState(StrEnum):
    """What a node says of itself, or what the registry concluded from its silence."""

    LOADING = "loading"
    """The model service is being loaded; nothing is assigned."""
    IDLE = "idle"
    """Ready, and no session resident."""
    BUSY = "busy"
    """At least one session is resident."""
    ERROR = "error"
    """The service can't serve; nothing is assigned."""
    DEAD = "dead"
    """Its lease ran out or it said goodbye; only a new registration brings it back."""


class Judgement(StrEnum):
    """What the registry concludes about a node from its failures."""

    OK = "ok"
    SUSPECT = "suspect"


class Admin(StrEnum):
    """What an operator set for a node."""

    OPEN = "open"
    DRAINING = "draining"


class Activity(StrEnum):
    """What a talk session is doing inside ``running``."""

    BUSY_CHAT = "busy_chat"
    BUSY_HALF_DUPLEX = "busy_half_duplex"
    DUPLEX_ACTIVE = "duplex_active"
    DUPLEX_PAUSED = "duplex_paused"


S = TypeVar("S", bound=StrEnum)
Table = Mapping[S, Mapping[S, str]]


def _table(moves: dict[S, dict[S, str]]) -> Table[S]:
    return MappingProxyType({state: MappingProxyType(next_) for state, next_ in moves.items()})


_Q, _A, _J, _P, _R = (
    SessionState.QUEUED,
    SessionState.ASSIGNED,
    SessionState.JOINING_ROOM,
    SessionState.STARTING_PIPELINE,
    SessionState.RUNNING,
)
_D, _C, _X, _F = (
    SessionState.DRAINING,
    SessionState.CLOSED,
    SessionState.EXPIRED,
    SessionState.FAILED,
)
_RETURN = "involuntary return, old ticket"
_ENDING = "DELETE, stop, natural end, timeout"
_FAULT = "error that a retry can't cure"

SESSION_MOVES: Table[SessionState] = _table(
    {
        _Q: {
            _A: "head of the line and a free slot",
            _D: "DELETE, admin, abandoned (in one step)",
        },
        _A: {_J: "the node has it", _Q: _RETURN, _D: _ENDING, _F: "tries used up"},
        _J: {_P: "the controller is there", _Q: _RETURN, _D: _ENDING, _F: _FAULT},
        _P: {_R: "the pipeline session exists", _Q: _RETURN, _D: _ENDING, _F: _FAULT},
        _R: {_Q: _RETURN, _D: _ENDING, _F: _FAULT},
        _D: {
            _C: "cleanup confirmed, node dead, or quarantined",
            _X: "cleanup confirmed, node dead, or quarantined",
            _F: "cleanup confirmed, node dead, or quarantined",
        },
        _C: {},
        _X: {},
        _F: {},
    }
)

NODE_MOVES: Table[NodeState] = _table(
    {
        NodeState.LOADING: {
            NodeState.IDLE: "service ready",
            NodeState.ERROR: "load failed",
            NodeState.DEAD: "lease ran out",
        },
        NodeState.IDLE: {
            NodeState.BUSY: "first session resident",
            NodeState.ERROR: "service broke",
            NodeState.LOADING: "service is reloaded",
            NodeState.DEAD: "lease ran out or goodbye",
        },
        NodeState.BUSY: {
            NodeState.IDLE: "last session gone",
            NodeState.ERROR: "service broke",
            NodeState.LOADING: "service is reloaded",
            NodeState.DEAD: "lease ran out",
        },
        NodeState.ERROR: {
            NodeState.LOADING: "another try",
            NodeState.DEAD: "lease ran out or goodbye",
        },
        NodeState.DEAD: {NodeState.LOADING: "registered again"},
    }
)

ACTIVITY_MOVES: Table[Activity] = _table(
    {
        Activity.BUSY_CHAT: {Activity.BUSY_HALF_DUPLEX: "mode", Activity.DUPLEX_ACTIVE: "mode"},
        Activity.BUSY_HALF_DUPLEX: {Activity.BUSY_CHAT: "mode", Activity.DUPLEX_ACTIVE: "mode"},
        Activity.DUPLEX_ACTIVE: {Activity.DUPLEX_PAUSED: "pause", Activity.BUSY_CHAT: "mode"},
        Activity.DUPLEX_PAUSED: {Activity.DUPLEX_ACTIVE: "resume"},
    }
)

ENDED_STATES: frozenset[SessionState] = frozenset({_C, _X, _F})
RESIDENT_STATES: frozenset[SessionState] = frozenset({_A, _J, _P, _R, _D})

ENDED_AS: Mapping[Reason, SessionState] = MappingProxyType(
    {
        Reason.CLIENT_STOP: _C,
        Reason.COMPLETED: _C,
        Reason.ADMIN: _C,
        Reason.NODE_SHUTDOWN: _C,
        Reason.SESSION_TIMEOUT: _X,
        Reason.CONTROLLER_TIMEOUT: _X,
        Reason.ROOM_EMPTY: _X,
        Reason.QUEUE_ABANDONED: _X,
        Reason.PAUSE_TIMEOUT: _X,
        Reason.TALK_TIMEOUT: _X,
        Reason.CONTEXT_FULL: _X,
        Reason.JOIN_TIMEOUT: _F,
        Reason.START_TIMEOUT: _F,
        Reason.RECOVERY_LIMIT: _F,
        Reason.SERVICE_ERROR: _F,
        Reason.LIVEKIT_ERROR: _F,
        Reason.INVALID_CONFIG: _F,
    }
)


def sources_of(table: Table[S], target: S) -> tuple[S, ...]:
    """Return the states from which *target* may be reached; scripts get them as an argument."""
    return tuple(state for state, next_ in table.items() if target in next_)


def move(table: Table[S], source: S, target: S) -> S:
    """Return *target* if the move is legal, else raise `IllegalMove`; nothing else happens."""
    if target not in table[source]:
        raise IllegalMove(machine=type(source).__name__, source=source, target=target)
    return target
