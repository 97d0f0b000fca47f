"""Was anything lost, played twice, overtaken or leaked? Pure.

Each check takes what was seen from outside (answers of the API, frames in the rooms) or the
registry's own words (audit trail, keys), and returns one sentence per finding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scripts.chaos_run.faults import Done
from scripts.chaos_run.guests import Visit
from scripts.chaos_run.schedule import NODE_TTL_S, REDIS, VENUE, Kind
from scripts.chaos_run.venue import Frame
from shared.events import Event
from shared.states import ENDED_STATES, SessionState
from shared.store.keys import kind_of
from tests.support.audit import Pool, violations
from tests.support.key_dump import Key

_FSYNC_S = 1.0
"""What everysec may lose beyond the moments that a plan names: our clock of sizes is coarse."""
_ANSWER_S = 1.5
"""So long an answer may be on its way after its call was done."""
_IN_FLIGHT_S = 0.02
_JUST = frozenset(
    (
        "closed completed",
        "failed recovery_limit",
        "failed join_timeout",
        "failed start_timeout",
    )
)
_LATE_MS = 500
_AROUND_MS = round(1000 * (NODE_TTL_S + 3.0))
_OWN_LIMITS = frozenset(("accept_timeout", "join_timeout", "start_timeout"))
_WAITS = frozenset(("queued", "returned"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One sentence per finding; all empty: the seed held."""

    lost: list[str]
    doubled: list[str]
    overtaken: list[str]
    leaked: list[str]
    keys: list[str]
    crowded: list[str]
    unjust: list[str]
    untrue: list[str]
    """What the product tells of a session otherwise than it was."""
    surprises: list[str]
    """Processes that ended unasked, answers that no client should get."""

    @property
    def holds(self) -> bool:
        return not any(self.as_dict().values())

    def as_dict(self) -> dict[str, list[str]]:
        """Return all findings by kind."""
        return {
            "lost": self.lost,
            "doubled": self.doubled,
            "overtaken": self.overtaken,
            "leaked": self.leaked,
            "keys": self.keys,
            "crowded": self.crowded,
            "unjust": self.unjust,
            "untrue": self.untrue,
            "surprises": self.surprises,
        }


def lost(
    visits: Iterable[Visit], states: Mapping[str, SessionState | None], done: Iterable[Done]
) -> Iterator[str]:
    """Find accepted sessions that are nowhere, never ended, or of one key and yet two.

    Args:
        visits: What the guests saw.
        states: Of each session that was accepted, as the registry knows it at the end; None: it
            doesn't.
        done: The faults; a lost tail excuses what was accepted shortly before.
    """
    losses = [fault for fault in done if fault.lost_s > 0]
    for visit in visits:
        kept: dict[str, None] = {}
        for session_id, accepted_s in visit.accepted:
            state = states.get(session_id)
            if state is None and not _excused(accepted_s, losses):
                yield f"{session_id} of {visit.guest.name} was accepted and is nowhere"
            elif state is not None and state not in ENDED_STATES:
                yield f"{session_id} of {visit.guest.name} never ended, it is {state}"
            # What the registry forgot it can't know to be the same; a node brings it back later.
            if state is not None and not _excused(accepted_s, losses):
                kept[session_id] = None
        if len(kept) > 1:
            yield f"{visit.guest.name} has two sessions under one key: {list(kept)}"
        for session_id, seen_s in visit.forgotten:
            if states.get(session_id) is not None and not losses:
                yield f"{session_id} was said to be unknown at {seen_s:.1f} and is there"
        if not visit.end:
            yield f"{visit.guest.name} never learned that its session ended"


def _excused(accepted_s: float, losses: Iterable[Done]) -> bool:
    return any(
        loss.began_at_s - loss.lost_s - _FSYNC_S <= accepted_s <= loss.ended_at_s + _ANSWER_S
        for loss in losses
    )


def doubled(
    frames: Iterable[Frame], thawed_at_s: Mapping[str, list[float]], done: Iterable[Done]
) -> Iterator[str]:
    """Find frames of a worker after frames of a newer one of the same session.

    One frame of a process that has just been woken is let pass: it was frozen between asking for
    its lease and sending. A real page doesn't play it, since it knows the newer worker.

    Around a lost tail the newer one must still play, too: if it has left the room for good, the
    registry has forgotten it, and takes the older one for the owner until it is told better.
    """
    frames = sorted(frames, key=lambda frame: frame.sent_s)
    last_s = {(frame.session_id, frame.order): frame.sent_s for frame in frames}
    losses = [fault for fault in done if fault.lost_s > 0]
    newest: dict[str, Frame] = {}
    told: set[tuple[str, int, int]] = set()
    for frame in frames:
        before = newest.get(frame.session_id)
        if before is None or frame.order >= before.order:
            newest[frame.session_id] = frame
            continue
        has_left = last_s[before.session_id, before.order] < frame.sent_s
        if _just_woken(frame, thawed_at_s) or (has_left and _near(losses, frame.sent_s)):
            continue
        if (which := (frame.session_id, *frame.order)) not in told:
            told.add(which)
            late_s = frame.sent_s - before.sent_s
            yield (
                f"{frame.session_id}: {frame.node_id} under {frame.order} sent a frame "
                f"{late_s:.3f} s after one of {before.node_id} under {before.order}"
            )


def unowned(
    frames: Iterable[Frame],
    events: Iterable[Event],
    done: Iterable[Done],
    thawed_at_s: Mapping[str, list[float]],
) -> Iterator[str]:
    """Find frames of a worker whose session the registry had taken from it already.

    Nobody need have seen two pictures: a newer worker puts the older one out of the room. But a
    node must be silent before its sessions go on, whatever it knows. Around a lost tail this can't
    be asked for: there the registry takes back what it said.
    """
    closed: dict[tuple[str, int], Event] = {}
    owner: dict[str, int] = {}
    for event in events:
        if event.what == "assigned" and event.epoch is not None:
            owner[event.session_id] = event.epoch
        elif event.what in ("returned", "ended") and event.session_id in owner:
            closed[event.session_id, owner.pop(event.session_id)] = event
    losses = [fault for fault in done if fault.lost_s > 0]
    to_wall_ms = _to_wall_ms()
    told: set[tuple[str, int]] = set()
    for frame in frames:
        which = (frame.session_id, frame.epoch)
        if which not in closed or which in told:
            continue
        late_s = (frame.sent_s * 1000 + to_wall_ms - closed[which].at_ms) / 1000
        near_loss = _near(losses, frame.sent_s)
        if late_s > _IN_FLIGHT_S and not near_loss and not _just_woken(frame, thawed_at_s):
            told.add(which)
            yield (
                f"{frame.session_id}: {frame.node_id} under {frame.order} sent a frame {late_s:.3f}"
                f" s after it was {closed[which].what} ({closed[which].why})"
            )


def _just_woken(frame: Frame, thawed_at_s: Mapping[str, list[float]]) -> bool:
    """Tell whether the process had asked for its lease before it was frozen, and sent after."""
    wakes = thawed_at_s.get(frame.node_id, [])
    return any(0 <= frame.sent_s - wake_s < _IN_FLIGHT_S for wake_s in wakes)


def crowded(frames: Iterable[Frame], slots: int) -> Iterator[str]:
    """Find nodes that played more sessions at once than they have slots."""
    lives: dict[tuple[str, str, int, int], list[float]] = {}
    for frame in frames:
        life = (frame.node_id, frame.session_id, *frame.order)
        lives.setdefault(life, [frame.sent_s, frame.sent_s])[1] = frame.sent_s
    for (node_id, session_id, *_), (began_s, _ended_s) in lives.items():
        beside = {
            other
            for (other_node, other, *_), (from_s, until_s) in lives.items()
            if other_node == node_id and from_s < began_s < until_s
        }
        if len(beside - {session_id}) >= slots:
            yield f"{node_id} began to play {session_id} beside {sorted(beside)}"


def _near(losses: Iterable[Done], sent_s: float) -> bool:
    """Whether the registry may not yet know again what it lost."""
    return any(loss.began_at_s < sent_s < loss.ended_at_s + NODE_TTL_S for loss in losses)


def unjust(visits: Iterable[Visit], events: Iterable[Event]) -> Iterator[str]:
    """Find guests who stayed in the room to the end and whose session ended otherwise.

    Who lost its place too often is told so (R4); no other reason may meet somebody who is there. A
    guest who learned of its session too late, since answers were lost, wasn't there: neither in the
    room nor, if it waited so long that it was given up, in the line.
    """
    to_wall_ms = _to_wall_ms()
    ended_ms = {event.session_id: event.at_ms for event in events if event.what == "ended"}
    joined_ms = {event.session_id: event.at_ms for event in events if event.what == "joining_room"}
    for visit in visits:
        guest = visit.guest
        left = guest.deletes_after_s is not None or guest.vanishes_after_s is not None
        is_just = not visit.end or visit.end in _JUST
        if not guest.shows_up or left or is_just or not visit.since_s:
            continue
        session_id, since_s = list(visit.since_s.items())[-1]
        knew_ms = to_wall_ms + 1000 * since_s
        is_late = knew_ms - joined_ms.get(session_id, math.inf) >= _LATE_MS
        if not is_late and knew_ms < ended_ms.get(session_id, math.inf):
            yield f"{guest.name} was there and {session_id} ended: {visit.end}"


def moved_by_clocks(events: Iterable[Event], done: Iterable[Done]) -> Iterator[str]:
    """Find sessions that left a node whose clock stepped, and to which nothing else was done.

    Only those whose node lost its lease: a busy machine may miss the registry's own short limits.
    """
    faults = list(done)
    for event in events:
        if event.what != "returned" or event.why in _OWN_LIMITS:
            continue
        near = [
            fault
            for fault in faults
            if fault.target in (event.node_id, REDIS, VENUE)
            and fault.began_at_ms <= event.at_ms <= fault.ended_at_ms + _AROUND_MS
        ]
        if near and all(fault.kind is Kind.SKEW for fault in near):
            yield f"{event.node_id} lost {event.session_id} ({event.why}) as its clock stepped"


def _to_wall_ms() -> float:
    """Return what makes wall time (ms) of monotonic milliseconds, on this machine today."""
    return time.time() * 1000 - time.monotonic() * 1000


def overtaken(events: Iterable[Event]) -> Iterator[str]:
    """Find admissions of somebody who wasn't the first in line then."""
    waiting: dict[str, int] = {}
    for event in events:
        if not event.session_id:
            continue
        if event.what in _WAITS:
            waiting[event.session_id] = event.ticket or 0
            continue
        ticket = waiting.pop(event.session_id, None)
        if event.what == "assigned" and ticket is not None:
            before = [sid for sid, other in waiting.items() if other < ticket]
            if before:
                yield f"{event.session_id} was assigned at {event.id} before {before[:3]}"


def leaked(found: list[Key], prefix: str, used: Mapping[str, int]) -> Iterator[str]:
    """Find slots that are held by nobody, and whatever contradicts itself once all is quiet.

    Args:
        found: All keys.
        prefix: Of the pool.
        used: How many slots of each node the registry counts as taken.
    """
    pool = Pool(found, prefix)
    for node, count in used.items():
        if count:
            yield f"{node} has {count} slots in use"
    for node, members in pool.members.items():
        for member in members:
            yield f"{node} still holds {member}"
    for name, session in pool.live.items():
        yield f"{name} is still {session['state']}"
    yield from violations(found)


def strange_keys(found: list[Key]) -> Iterator[str]:
    """Find keys that nobody owns or that will stay for ever."""
    for key in found:
        kind = kind_of(key.name)
        if kind is None:
            yield f"{key.name} has no owner"
        elif not kind.lasting and key.ttl_ms < 0 and kind.suffix not in ("n:<nid>", "ns:<nid>"):
            yield f"{key.name} has no lifetime"
