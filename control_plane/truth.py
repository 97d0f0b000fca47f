"""Do ledger, nodes, rooms and keys tell the same story? Pure.

Each check compares two places that must agree and names what differs; nothing is changed. Between
two looks a session may move, so what one look shows may be a moment in between: only what `lasting`
finds in two looks, a heartbeat apart, is a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.facts import ABSENT, STAYS, KeyFacts, NodeFacts, PoolFacts, RoomFacts, SessionFacts
from shared.states import SessionState


class Part(StrEnum):
    """Where two places differ; also the label of the metric."""

    PLACE = "place"
    """A live session stands in exactly one place: the line, or one node's slots."""
    STEP = "step"
    """What a session's state is, and what is set together with it."""
    SLOT = "slot"
    """A node's slots belong to sessions that say so."""
    FREE = "free"
    """The nodes that are given sessions are those that may be."""
    DEADLINE = "deadline"
    """The next deadline is the earliest one, and somebody fires it."""
    NUMBER = "number"
    """Tickets and epochs were issued, once each."""
    LIFETIME = "lifetime"
    """What is live stays, what has ended goes."""
    IMAGE = "image"
    """The byte budget counts what is there."""
    KEY = "key"
    """Every key belongs to somebody."""
    NODE = "node"
    """A node holds what the ledger gives it."""
    ROOM = "room"
    """A room belongs to a live session, a playing session has a room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that two places tell differently."""

    part: Part
    subject: str
    """The session, node or key."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one look found."""

    facts: PoolFacts
    keys: tuple[KeyFacts, ...] | None = None
    """None: not looked at."""
    idempotency: Mapping[str, str] = field(default_factory=dict)
    """Hash → session, of the keys that were found."""
    rooms: tuple[RoomFacts, ...] | None = None
    """None: not looked at."""
    whole: bool = True
    """Every live session of the pool is among the facts."""


OVERDUE_MS = 5_000
"""A deadline may wait for the next sweep, and a sweep for a slow one."""
SETTLES_MS = 15_000
"""A room may outlive its session, and be behind a new one, for so long."""


def differences(seen: Evidence) -> list[Difference]:
    """Return everything that differs in one look."""
    found: list[Difference] = []
    for session in seen.facts.sessions:
        for part, check in _OF_SESSIONS:
            found += _told(part, session.session_id, check(session, seen.facts))
    for node in seen.facts.nodes:
        for part, check_node in _OF_NODES:
            found += _told(part, node.node_id, check_node(node, seen.facts))
    found += _tickets(seen.facts)
    if seen.whole:
        found += _images(seen.facts)
    if seen.keys is not None:
        found += _keys(seen, seen.keys)
    if seen.rooms is not None:
        found += _rooms(seen.facts, seen.rooms)
    return found


def lasting(first: Iterable[Difference], second: Iterable[Difference]) -> list[Difference]:
    """Return what is different in both looks, in the words of the second."""
    before = {(one.part, one.subject) for one in first}
    return [one for one in second if (one.part, one.subject) in before]


def _told(part: Part, subject: str, texts: Iterable[str]) -> list[Difference]:
    return [Difference(part=part, subject=subject, text=text) for text in texts]


# --- sessions -----------------------------------------------------------------------------------


def _place(session: SessionFacts, _facts: PoolFacts) -> Iterator[str]:
    name, node_id, ticket = session.state, session.node_id, session.number("ticket")
    if session.line_ticket is not None and name is not SessionState.QUEUED:
        yield f"is {name or 'unknown'} and stands in line"
    if session.slot_epoch is not None and not session.is_live:
        yield f"holds a slot of {node_id} and isn't live"
    if name is SessionState.QUEUED:
        if session.line_ticket is None:
            yield "waits and doesn't stand in line"
        elif session.line_ticket != ticket:
            yield f"stands in line at {session.line_ticket}, its ticket is {ticket}"
        if node_id:
            yield f"waits and is said to be on {node_id}"
    elif session.is_live and session.slot_epoch is None:
        yield f"is {name} on {node_id} and holds no slot there"
    elif session.is_live and session.slot_epoch != session.number("epoch"):
        yield f"holds a slot under {session.slot_epoch}, its epoch is {session.number('epoch')}"


_STEP_OF = {
    "assigned": SessionState.ASSIGNED,
    "joining": SessionState.JOINING_ROOM,
    "starting": SessionState.STARTING_PIPELINE,
    "draining": SessionState.DRAINING,
}
"""The state that each of these deadlines watches over: set with it, gone with it."""


def _step(session: SessionFacts, _facts: PoolFacts) -> Iterator[str]:
    """Compare the state with the deadlines, which every script sets together with it."""
    word, at = session.record.get("state", ""), session.deadlines()
    if word and session.state is None:
        yield f"has the state {word!r}, which doesn't exist"
    for kind, state in _STEP_OF.items():
        # Once the worker is in the room this one is over: the controller has a limit of its own.
        is_over = kind == "joining" and session.record.get("connected")
        limit = 0 if is_over else session.number(f"d_{kind}")
        if session.state is state and limit and kind not in at:
            yield f"is {state} and has no deadline for that: its state was set by hand"
        elif session.is_live and session.state is not state and kind in at:
            yield f"is {session.state} and its deadline for {state} runs"


def _deadline(session: SessionFacts, facts: PoolFacts) -> Iterator[str]:
    at = session.deadlines()
    first = min(at.values(), default=None)
    if first != session.deadline_ms:
        yield f"is due at {session.deadline_ms}, its earliest deadline is {first}"
    elif at and not session.is_live:
        yield f"isn't live and keeps deadlines: {', '.join(sorted(at))}"
    elif first is not None and facts.registry_ms - first > OVERDUE_MS:
        late_s = (facts.registry_ms - first) / 1000
        yield f"is overdue by {late_s:.0f} s: no replica sweeps"


def _numbers(session: SessionFacts, facts: PoolFacts) -> Iterator[str]:
    for name in ("ticket", "epoch"):
        number, last = session.number(name), int(float(facts.counters.get(name, 0)))
        if number is not None and number > last:
            yield f"has the {name} {number}, the last one issued is {last}"


def _tickets(facts: PoolFacts) -> Iterator[Difference]:
    holder: dict[int, str] = {}
    for session in facts.sessions:
        ticket = session.number("ticket")
        if ticket is None:
            continue
        other = holder.setdefault(ticket, session.session_id)
        if other != session.session_id:
            yield Difference(
                part=Part.NUMBER,
                subject=session.session_id,
                text=f"has the same ticket as {other}",
            )


def _lifetimes(session: SessionFacts, _facts: PoolFacts) -> Iterator[str]:
    lives = session.lifetimes
    if session.state is None:
        return
    named = {"record": lives.record, "texts": lives.texts, "request": lives.request}
    if session.record.get("idem"):
        named["idempotency key"] = lives.idempotency
    if session.is_live:
        for name, lifetime in named.items():
            if lifetime != STAYS:
                gone = "is gone" if lifetime == ABSENT else "would vanish"
                yield f"is live and its {name} {gone}"
        if lives.image >= 0:
            yield "is live and its image would vanish"
    else:
        for name, lifetime in named.items():
            if lifetime == STAYS:
                yield f"has ended and its {name} would stay for ever"
        if lives.image != ABSENT:
            yield "has ended and its image is still there"


def _images(facts: PoolFacts) -> Iterator[Difference]:
    counted = int(float(facts.counters.get("image_bytes", 0)))
    held = sum(session.image_bytes for session in facts.sessions if session.is_live)
    if counted != held:
        yield Difference(
            part=Part.IMAGE,
            subject=facts.pool,
            text=f"counts {counted} bytes of images, live sessions hold {held}",
        )


# --- nodes --------------------------------------------------------------------------------------


def _slots(node: NodeFacts, facts: PoolFacts) -> Iterator[str]:
    if node.lease_ms is None and node.members:
        yield f"has no lease and {len(node.members)} of its slots are taken"
    if node.lease_ms is not None and facts.registry_ms - node.lease_ms > OVERDUE_MS:
        yield "is silent and not declared dead: no replica sweeps"
    for member in node.members:
        name = member.session_id
        if member.quarantined:
            if f"!{name}" not in node.record:
                yield f"keeps a slot for what is left of {name} and would never free it"
        elif member.state is None:
            yield f"gives a slot to {name}, which has no record"
        elif member.node_id != node.node_id:
            yield f"gives a slot to {name}, which is on {member.node_id or 'no node'}"
    kept = {member.session_id for member in node.members if member.quarantined}
    for name in node.record:
        if name.startswith("!") and name[1:] not in kept:
            yield f"remembers what is left of {name[1:]}, which holds no slot"


def _free(node: NodeFacts, facts: PoolFacts) -> Iterator[str]:
    record, capacity = node.record, node.capacity
    used = len(node.members) + node.number("strangers")
    usable = (
        record.get("state") in ("idle", "busy")
        and record.get("draining") == "0"
        and record.get("media_ok") == "1"
        and record.get("admin") != "draining"
        and record.get("gen") in (None, facts.counters.get("gen"))
        and node.lease_ms is not None
        and used < capacity
    )
    rested = node.number("rest") <= node.number("beat")
    if node.free_score is None:
        alive = node.lease_ms is not None and node.lease_ms > facts.registry_ms
        if usable and alive and rested:
            yield f"has {capacity - used} free slots and is given no session"
    elif not usable:
        yield "may not be given a session and would be"
    elif abs(node.free_score - used / capacity) > 1e-9:
        yield f"ranks at {node.free_score:.2f} with {used} of {capacity} slots taken"


def _reports(node: NodeFacts, _facts: PoolFacts) -> Iterator[str]:
    """Compare with what the node said in its last beat."""
    if node.lease_ms is None or "listed" not in node.record:
        return
    if strangers := node.number("strangers"):
        yield f"says that it holds {strangers} sessions that the ledger doesn't give it"
    own = node.number("listed") - node.number("strangers") - node.number("kept")
    given = sum(
        member.acked is not None and member.acked < node.number("stamp")
        for member in node.members
        if not member.quarantined
    )
    if given > own:
        yield f"says that it holds {own} of the {given} sessions that it had accepted"


# --- keys and rooms -----------------------------------------------------------------------------


def _keys(seen: Evidence, keys: Iterable[KeyFacts]) -> Iterator[Difference]:
    live = {session.session_id for session in seen.facts.sessions if session.is_live}
    known = {session.session_id for session in seen.facts.sessions if session.state is not None}
    nodes = {node.node_id for node in seen.facts.nodes if node.lease_ms is not None}
    for key in keys:
        if not key.kind:
            yield Difference(part=Part.KEY, subject=key.name, text="belongs to nobody")
        elif not key.type_fits:
            yield Difference(
                part=Part.KEY, subject=key.name, text="is of another kind: somebody else wrote it"
            )
        elif key.lasting or key.lifetime_ms != STAYS:
            continue
        elif key.kind == "idem:<hash>":
            if seen.idempotency.get(key.subject, "") not in known:
                yield Difference(
                    part=Part.KEY, subject=key.name, text="would stay for ever, its session is gone"
                )
        elif key.kind in ("n:<nid>", "ns:<nid>"):
            if key.subject not in nodes:
                yield Difference(
                    part=Part.KEY, subject=key.name, text="would stay for ever, its node is gone"
                )
        elif key.subject not in live and (key.subject not in known or key.kind == "a:<sid>"):
            yield Difference(
                part=Part.KEY, subject=key.name, text="would stay for ever, its session is gone"
            )


def _rooms(facts: PoolFacts, rooms: Iterable[RoomFacts]) -> Iterator[Difference]:
    def wrong(session_id: str, text: str) -> Difference:
        return Difference(part=Part.ROOM, subject=session_id, text=text)

    known = {session.session_id: session for session in facts.sessions}
    by_session = {room.session_id: room for room in rooms}
    media = {node.node_id: node.record.get("media_ok") == "1" for node in facts.nodes}
    for name, room in by_session.items():
        session = known.get(name)
        if session is None or session.state is None:
            yield wrong(name, f"has a room with {room.participants} in it and no record")
        elif not session.is_live:
            ended_ms = session.number("ended") or 0
            if facts.at_ms - ended_ms > SETTLES_MS:
                yield wrong(name, f"has ended and its room still has {room.participants} in it")
    for name, session in known.items():
        if session.state is not SessionState.RUNNING or not media.get(session.node_id):
            continue
        since_ms = session.number("started") or 0
        if facts.at_ms - since_ms <= SETTLES_MS or session.record.get("connected") != "1":
            continue
        of_session = by_session.get(name)
        if of_session is None:
            yield wrong(name, f"runs on {session.node_id} and has no room")
        elif of_session.epoch is not None and of_session.epoch != session.number("epoch"):
            yield wrong(
                name,
                f"runs under {session.number('epoch')}, its room was made for {of_session.epoch}",
            )


_OF_SESSIONS = (
    (Part.PLACE, _place),
    (Part.STEP, _step),
    (Part.DEADLINE, _deadline),
    (Part.NUMBER, _numbers),
    (Part.LIFETIME, _lifetimes),
)
_OF_NODES = ((Part.SLOT, _slots), (Part.FREE, _free), (Part.NODE, _reports))
