"""Does ``greenroom explain`` tell true stories? Pure.

Each session's story, as the product makes it of the audit trail, is held against what was known
from outside: the schedule as it really happened, the frames in the rooms, what the guest did and
was told, and the session's own record. Each lie is one sentence. Where Redis lost its last writes
the trail lost them, too: nobody is asked for the truth about sessions from before such a moment.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from control_plane.stories import Step, Story, story_of
from scripts.chaos_run.faults import Done
from scripts.chaos_run.guests import Visit
from scripts.chaos_run.schedule import NODE_TTL_S, VENUE, Kind
from scripts.chaos_run.venue import Frame
from shared.events import Event
from shared.states import ENDED_AS, ENDED_STATES, Reason

_ON_STAGE_MS = 300
"""So fresh is the last frame of a session that is being played."""
_BEYOND_LEASE_MS = 1000 * (NODE_TTL_S + 3.0)
_CLOCKS_MS = 50
_LATE_CALLS_MS = 6_000
"""A copy of a call arrives up to five seconds late."""
_OWNED_BY = frozenset(("assigned", "adopted", "rebased"))
_LEFT = frozenset(("returned", "ended"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one seed without asking the trail."""

    visits: Sequence[Visit]
    frames: Sequence[Frame]
    done: Sequence[Done]
    attempts: Mapping[str, int]
    """Of each session whose record is there: 1 + how often it went back to the line."""


def lies(known: Known, events: Sequence[Event]) -> Iterator[str]:
    """Find what stories tell otherwise than it was."""
    if not events:
        return
    frames: defaultdict[str, list[Frame]] = defaultdict(list)
    for frame in known.frames:
        frames[frame.session_id].append(frame)
    last_loss_ms = max((one.ended_at_ms for one in known.done if one.lost_s > 0), default=0)
    for visit in known.visits:
        for session_id in dict.fromkeys(name for name, _ in visit.accepted):
            told = story_of(session_id, events, now_ms=events[-1].at_ms)
            found: list[str] = []
            if not last_loss_ms or (told.complete and told.steps[0].at_ms > last_loss_ms):
                found += _beginning(told)
                found += _end(told, visit)
                found += _players(told, frames[session_id])
                found += _deaths(told, frames[session_id], known.done)
                found += _causes(told, visit, known.done)
                found += _count(told, known.attempts.get(session_id))
                found += _sum(told)
            yield from (f"{session_id}: {sentence}" for sentence in found)


def _beginning(told: Story) -> Iterator[str]:
    if not told.complete:
        yield "its story doesn't begin with its coming into the line"


def _end(told: Story, visit: Visit) -> Iterator[str]:
    """The end that the guest was told is the end of the story."""
    state, _, reason = visit.end.partition(" ")
    is_last = list(visit.since_s)[-1:] == [told.session_id]
    if not is_last or state not in ENDED_STATES or not told.steps:
        return
    ends = [Reason(step.why) for step in told.steps if step.what == "ended"]
    is_so = ends and ENDED_AS[ends[-1]] == state and reason in ("", ends[-1])
    if not is_so:  # the answer to a DELETE gives no reason
        yield f"its guest was told {visit.end}, the story says {ends}"


def _players(told: Story, frames: Iterable[Frame]) -> Iterator[str]:
    """Who played it, by the frames in its room, had it; and no first frame is told of nobody's."""
    owners = {(step.node_id, step.epoch) for step in told.steps if step.what in _OWNED_BY}
    began_s: dict[tuple[str, int], float] = {}
    for frame in frames:
        who = (frame.node_id, frame.epoch)
        began_s[who] = min(frame.sent_s, began_s.get(who, frame.sent_s))
    for node_id, epoch in began_s.keys() - owners:
        yield f"{node_id} played it under {epoch}, the story has only {sorted(owners, key=str)}"
    to_wall_ms = _to_wall_ms()
    for step in told.steps:
        if step.what != "first_frame":
            continue
        first_s = began_s.get((step.node_id, step.epoch or 0))
        if first_s is None:
            yield f"the story tells of a first frame of {step.node_id} that nobody saw"
        elif step.at_ms < first_s * 1000 + to_wall_ms - _CLOCKS_MS:
            yield f"the story tells of the first frame of {step.node_id} before it was sent"


def _deaths(told: Story, frames: Sequence[Frame], done: Iterable[Done]) -> Iterator[str]:
    """A node that was killed, or frozen beyond its lease, while it played the session, lost it."""
    to_wall_ms = _to_wall_ms()
    for fault in done:
        frozen_ms = fault.ended_at_ms - fault.began_at_ms if fault.kind is Kind.FREEZE else 0
        if fault.kind is not Kind.KILL and frozen_ms < _BEYOND_LEASE_MS:
            continue
        sent_ms = [
            frame.sent_s * 1000 + to_wall_ms for frame in frames if frame.node_id == fault.target
        ]
        on_stage = any(0 <= fault.began_at_ms - at_ms < _ON_STAGE_MS for at_ms in sent_ms)
        if on_stage and not any(_leaves(step, fault) for step in told.steps):
            yield (
                f"{fault.target} played it when it was hurt ({fault.kind}) at "
                f"{fault.began_at_ms / 1000:.3f}, the story doesn't tell that it lost it"
            )


def _leaves(step: Step, fault: Done) -> bool:
    # It may have ended, and the picture stood for a moment longer.
    since_ms = fault.began_at_ms - _ON_STAGE_MS
    return step.what in _LEFT and step.node_id == fault.target and step.at_ms >= since_ms


def _causes(told: Story, visit: Visit, done: Iterable[Done]) -> Iterator[str]:
    """Causes that only the plan can bring about are told only if it did."""
    faults = list(done)
    for step in told.steps:
        if step.what not in _LEFT:
            continue
        match step.why:
            case "node_shutdown":
                is_true = any(_near(step, fault, Kind.TERM, step.node_id) for fault in faults)
            case "media_lost":
                is_true = any(_near(step, fault, Kind.MEDIA_OUT, VENUE) for fault in faults)
            case Reason.CLIENT_STOP:
                is_true = visit.guest.deletes_after_s is not None
            case Reason.ADMIN | "node_drained" | "service_lost" | Reason.INVALID_CONFIG:
                is_true = False  # nobody did that
            case Reason.CONTROLLER_TIMEOUT | Reason.ROOM_EMPTY:
                is_true = not visit.guest.shows_up or visit.guest.vanishes_after_s is not None
            case _:
                continue
        if not is_true and not (step.what == "ended" and _knew_late(told, visit)):
            at_s = step.at_ms / 1000
            yield f"the story says {step.what} by {step.why} at {at_s:.3f}, which nobody did"


def _near(step: Step, fault: Done, kind: Kind, target: str) -> bool:
    until_ms = fault.ended_at_ms + _LATE_CALLS_MS
    return (
        fault.kind is kind
        and fault.target == target
        and fault.began_at_ms <= step.at_ms <= until_ms
    )


def _knew_late(told: Story, visit: Visit) -> bool:
    """For a while the guest didn't know of its session, as answers were lost: it wasn't there."""
    knew_s = visit.since_s.get(told.session_id)
    return knew_s is None or 1000 * knew_s + _to_wall_ms() - told.steps[0].at_ms > 1000


def _count(told: Story, attempt: int | None) -> Iterator[str]:
    """The story tells each return to the line that the record counts."""
    returns = sum(step.what == "returned" for step in told.steps)
    if attempt is not None and returns != attempt - 1:
        yield f"the story tells of {returns} returns, its record of {attempt - 1}"


def _sum(told: Story) -> Iterator[str]:
    """Where the time went is all of the time."""
    ends_ms = [step.at_ms for step in told.steps if step.what == "ended"]
    if ends_ms:
        whole_s = (ends_ms[0] - told.steps[0].at_ms) / 1000
        spent_s = sum(told.spent_s.values())
        if abs(whole_s - spent_s) > _CLOCKS_MS / 1000:
            yield f"it took {whole_s:.3f} s, and {spent_s:.3f} s are told"


def _to_wall_ms() -> float:
    """Return what makes wall time (ms) of monotonic milliseconds, on this machine today."""
    return time.time() * 1000 - time.monotonic() * 1000
