"""How did one session come to where it is, and what does it wait for? Pure.

The audit trail says what happened and when; from it follow the phases and how long each took. What
a waiting session waits for is who stands before it and who holds the slots, and whether those are
used: a room without people is a slot that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.events import Event
from shared.facts import NodeFacts, PoolFacts, SessionFacts
from shared.states import SessionState


class Phase(StrEnum):
    """Where a session's time goes."""

    WAITING = "waiting"
    JOINING = "joining"
    """A node takes it, its worker joins the room and waits for the controller."""
    STARTING = "starting"
    TO_FIRST_FRAME = "to_first_frame"
    PLAYED = "played"
    ENDING = "ending"


_BEGINS = {
    "queued": Phase.WAITING,
    "returned": Phase.WAITING,
    "assigned": Phase.JOINING,
    "joining_room": Phase.JOINING,
    "starting_pipeline": Phase.STARTING,
    "running": Phase.TO_FIRST_FRAME,
    "first_frame": Phase.PLAYED,
    "draining": Phase.ENDING,
}
_NODE_NEWS = frozenset(("node_died", "node_retired", "node_drain"))
_LEFT = frozenset(("returned", "ended"))
"""It is on no node from then on."""
"""What befalls a node befalls the session that it has, or has just had."""
_WATCHED = frozenset(
    (SessionState.JOINING_ROOM, SessionState.STARTING_PIPELINE, SessionState.RUNNING)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened."""

    at_ms: int
    what: str
    node_id: str
    epoch: int | None
    why: str
    lasted_s: float | None
    """Until the next change of this session; None for the end of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What became of one session so far."""

    session_id: str
    steps: tuple[Step, ...]
    spent_s: Mapping[Phase, float]
    complete: bool
    """False: its beginning is no longer in the trail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One slot that is taken, and what for."""

    node_id: str
    session_id: str
    state: SessionState | None
    quarantined: bool
    """The session has ended; its node hasn't confirmed that nothing is left of it."""
    held_s: float | None
    people: int | None
    """Humans in the room; None: not known, or not yet."""
    empty_s: float | None
    """How long nobody was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What a waiting session waits for."""

    position: int
    ahead: tuple[str, ...]
    """The first ones before it, in order."""
    slots: int
    """Of nodes that may be given sessions."""
    taken: int
    holders: tuple[Holder, ...]
    closed: tuple[NodeFacts, ...]
    """Live nodes that are given none now."""
    servable: bool
    """A slot is free: whoever is first gets it in this moment."""


def story_of(session_id: str, events: Iterable[Event], *, now_ms: int) -> Story:
    """Tell a session's story from the pool's trail, up to *now_ms* (the server's clock)."""
    own: list[Event] = []
    told: list[Event] = []
    leaving = ""  # the node that a live drain is to take it from
    for event in events:
        if event.session_id == session_id:
            own.append(event)
            told.append(event)
            leaving = "" if event.what in _LEFT else leaving
        elif event.what in _NODE_NEWS and own and _concerns(event, own[-1]):
            told.append(event)  # a death comes just after the return of the node's sessions
            leaving = event.node_id if event.what == "node_drain" else ""
        elif event.what == "node_admin" and leaving and event.node_id == leaving:
            told.append(event)  # called off
            leaving = ""
    lasted = _durations(own, now_ms)
    spent = dict.fromkeys(Phase, 0.0)
    phase: Phase | None = None
    for event in own:
        phase = _phase_after(event, phase)
        if phase is not None:
            spent[phase] += lasted[event.id]
    return Story(
        session_id=session_id,
        steps=tuple(
            Step(
                at_ms=event.at_ms,
                what=event.what,
                node_id=event.node_id,
                epoch=event.epoch,
                why=event.why,
                lasted_s=lasted.get(event.id) if event.what != "ended" else None,
            )
            for event in told
        ),
        spent_s={phase: round(seconds, 3) for phase, seconds in spent.items()},
        complete=bool(own) and own[0].what == "queued",
    )


def _concerns(event: Event, latest: Event) -> bool:
    """Whether a node's news concern a session, by the latest that is known of it."""
    is_its_node = event.node_id == latest.node_id
    return is_its_node and (event.what != "node_drain" or latest.what not in _LEFT)


def _phase_after(event: Event, before: Phase | None) -> Phase | None:
    """Return where the time after an entry goes; None: nowhere, it's over."""
    if event.what == "adopted":  # from then on it's known again; its state is the entry's cause
        return Phase.PLAYED if event.why == SessionState.RUNNING else _BEGINS.get(event.why)
    if event.what == "ended":
        return None
    return _BEGINS.get(event.what, before)  # others say something of the phase that goes on


def _durations(own: Sequence[Event], now_ms: int) -> dict[str, float]:
    """Return how long each entry's state lasted; a clock that was set back takes nothing away."""
    ends = [event.at_ms for event in own[1:]] + [now_ms]
    return {  # a session without entries has no state that could last
        event.id: max(0, end - event.at_ms) / 1000 for event, end in zip(own, ends, strict=False)
    }


def holders_of(facts: PoolFacts) -> tuple[Holder, ...]:
    """Return every taken slot of the nodes in *facts*, longest empty first, then longest held."""
    known = {session.session_id: session for session in facts.sessions}
    found = [
        _holder(facts, node, member.session_id, member.quarantined, known.get(member.session_id))
        for node in facts.nodes
        for member in node.members
    ]
    return tuple(sorted(found, key=lambda one: (-(one.empty_s or 0), -(one.held_s or 0))))


def _holder(
    facts: PoolFacts,
    node: NodeFacts,
    session_id: str,
    quarantined: bool,
    session: SessionFacts | None,
) -> Holder:
    since_ms = session.number("assigned") if session else None
    people, empty_s = room_of(session, facts.registry_ms) if session else (None, None)
    return Holder(
        node_id=node.node_id,
        session_id=session_id,
        state=session.state if session else None,
        quarantined=quarantined,
        held_s=None if since_ms is None else max(0, facts.at_ms - since_ms) / 1000,
        people=None if quarantined else people,
        empty_s=None if quarantined else empty_s,
    )


def room_of(session: SessionFacts, registry_ms: int) -> tuple[int | None, float | None]:
    """Return how many people are in the room and, if nobody is, for how many seconds.

    The time is that of the timer that runs then: the controller's absence, or else the room's
    emptiness. Without either limit it isn't known.
    """
    if session.state not in _WATCHED or session.record.get("connected") != "1":
        return None, None
    people = session.number("participants") or 0
    if people:
        return people, None
    deadlines = session.deadlines()
    for kind in ("controller", "room_empty"):
        limit = session.number(f"d_{kind}")
        if kind in deadlines and limit is not None:
            return 0, max(0, registry_ms - deadlines[kind] + limit) / 1000
    return 0, None


def moves_in_s(node: NodeFacts | None, registry_ms: int) -> float | None:
    """Return in how many seconds a live drain moves a node's sessions; 0: since then; None: not."""
    if node is None or "drain_at" not in node.record:
        return None
    return max(0, node.number("drain_at") - registry_ms) / 1000


def obstacles_of(session: SessionFacts, facts: PoolFacts, ahead: Sequence[str]) -> Obstacles | None:
    """Return what *session* waits for, None if it doesn't wait.

    Args:
        session: The session in question.
        facts: All live nodes, and the sessions that hold their slots.
        ahead: The first ones in line before it.
    """
    if session.position is None:
        return None
    open_nodes: list[NodeFacts] = []
    closed: list[NodeFacts] = []
    for node in facts.nodes:
        fits = _is_given_sessions(node, facts.registry_ms)
        (open_nodes if fits else closed).append(node)
    return Obstacles(
        position=session.position,
        ahead=tuple(ahead),
        slots=sum(node.capacity for node in open_nodes),
        taken=sum(len(node.members) for node in open_nodes),
        holders=holders_of(facts),
        closed=tuple(closed),
        servable=any(node.free_score is not None for node in facts.nodes),
    )


def _is_given_sessions(node: NodeFacts, registry_ms: int) -> bool:
    """Whether a node would be in ``free`` if it had room."""
    record = node.record
    return (
        node.lease_ms is not None
        and node.lease_ms > registry_ms
        and record.get("state") in ("idle", "busy")
        and record.get("draining") == "0"
        and record.get("media_ok") == "1"
        and record.get("admin") != "draining"
        and node.number("rest") <= registry_ms
    )
