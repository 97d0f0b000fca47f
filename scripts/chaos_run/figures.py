"""How long did it take? Pure: from the audit trail and from when the faults really happened.

*readmission*: from a node's kill -9 until each of its sessions was back in line, and until it had a
slot again. Kills near which Redis or all its sweepers were away are left out: those stop the clock.
*slot idle*: from a slot's becoming free until its next user had it, while somebody waited.
*changeover*: from the last user's end until the next one's pipeline session ran.
*unprovoked*: returns of sessions whose node nobody had hurt, neither it nor Redis's data.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scripts.chaos_run.faults import Done
from scripts.chaos_run.schedule import NODE_TTL_S, NODES, REPLICAS, VENUE, Kind
from shared.events import Event

_AROUND_MS = round(1000 * (NODE_TTL_S + 3.0))
_HELD = frozenset(("assigned", "joining_room", "starting_pipeline", "running", "first_frame"))
_LEAVES = frozenset(("ended", "returned"))


@dataclass(slots=True, kw_only=True)
class Figures:
    """Milliseconds, one entry per observation."""

    readmitted_ms: list[int] = field(default_factory=list)
    placed_again_ms: list[int] = field(default_factory=list)
    slot_idle_ms: list[int] = field(default_factory=list)
    changeover_ms: list[int] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    returns: Counter[str] = field(default_factory=Counter)
    unprovoked: Counter[str] = field(default_factory=Counter)

    def add(self, other: Figures) -> None:
        """Take another seed's observations in."""
        self.readmitted_ms += other.readmitted_ms
        self.placed_again_ms += other.placed_again_ms
        self.slot_idle_ms += other.slot_idle_ms
        self.changeover_ms += other.changeover_ms
        self.endings += other.endings
        self.returns += other.returns
        self.unprovoked += other.unprovoked

    def as_dict(self) -> dict[str, object]:
        """Return percentiles in seconds, None where nothing was observed."""
        return {
            "readmitted_s": percentiles_s(self.readmitted_ms),
            "placed_again_s": percentiles_s(self.placed_again_ms),
            "slot_idle_s": percentiles_s(self.slot_idle_ms),
            "changeover_s": percentiles_s(self.changeover_ms),
            "endings": dict(self.endings.most_common()),
            "returns": dict(self.returns.most_common()),
            "unprovoked": dict(self.unprovoked.most_common()),
        }


def percentiles_s(values_ms: Sequence[int]) -> dict[str, float | int] | None:
    """Return count, median and 99th percentile (nearest rank)."""
    if not values_ms:
        return None
    ordered = sorted(values_ms)

    def rank(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1000

    return {"count": len(ordered), "p50": rank(0.5), "p99": rank(0.99)}


def figures(events: Sequence[Event], done: Iterable[Done]) -> Figures:
    """Return what one seed's trail shows."""
    found = Figures()
    faults = list(done)
    for kill in faults:
        if kill.kind is Kind.KILL and kill.target in NODES and not _blurred(kill, faults):
            for back_ms, placed_ms in _after(kill, events):
                found.readmitted_ms.append(back_ms)
                if placed_ms is not None:
                    found.placed_again_ms.append(placed_ms)
    found.slot_idle_ms += _idle(events)
    found.changeover_ms += _changeovers(events)
    found.endings.update(event.why for event in events if event.what == "ended")
    returns = [event for event in events if event.what == "returned"]
    found.returns.update(event.why for event in returns)
    found.unprovoked.update(event.why for event in returns if not _provoked(event, faults))
    return found


def _provoked(event: Event, faults: Iterable[Done]) -> bool:
    """Tell whether something was done to the node, or to the data, shortly before."""
    return any(
        fault.kind is not Kind.SKEW  # nothing may depend on a node's wall clock
        and (fault.target in (event.node_id, VENUE) or fault.lost_s > 0)
        and fault.began_at_ms <= event.at_ms <= fault.ended_at_ms + _AROUND_MS
        for fault in faults
    )


def _blurred(kill: Done, faults: Iterable[Done]) -> bool:
    """Tell whether something else stopped the clock around this kill."""
    for fault in faults:
        near = (
            fault.began_at_ms < kill.began_at_ms + _AROUND_MS
            and fault.ended_at_ms > kill.began_at_ms - _AROUND_MS
        )
        if near and fault.target not in NODES and fault.target not in REPLICAS:
            return True
        if near and fault.target in REPLICAS and fault.kind is Kind.FREEZE:
            return True
    return False


def _after(kill: Done, events: Sequence[Event]) -> Iterator[tuple[int, int | None]]:
    """Yield, for each session that the node had, when it was back in line and when placed."""
    here: dict[str, None] = {}
    for event in events:
        if event.at_ms >= kill.began_at_ms:
            break
        if event.what in _HELD and event.node_id == kill.target:
            here[event.session_id] = None
        else:
            here.pop(event.session_id, None)
    for session_id in here:
        later = [
            event
            for event in events
            if event.session_id == session_id and event.at_ms >= kill.began_at_ms
        ]
        back = next((event for event in later if event.what in _LEAVES), None)
        if back is None or back.what == "ended":
            continue
        placed = next((event for event in later if event.what == "assigned"), None)
        placed_ms = placed.at_ms - kill.began_at_ms if placed is not None else None
        yield back.at_ms - kill.began_at_ms, placed_ms


def _idle(events: Iterable[Event]) -> Iterator[int]:
    waiting: set[str] = set()
    freed: defaultdict[str, deque[int]] = defaultdict(deque)
    for event in events:
        if event.what == "assigned":
            waiting.discard(event.session_id)
            if freed[event.node_id]:
                yield event.at_ms - freed[event.node_id].popleft()
        elif event.what in ("queued", "returned"):
            waiting.add(event.session_id)
        elif event.what == "ended":
            waiting.discard(event.session_id)
            if event.node_id and waiting:
                freed[event.node_id].append(event.at_ms)
        elif event.what == "node_died":
            freed.pop(event.node_id, None)  # nobody can use what died
        else:
            waiting.discard(event.session_id)  # adopted, for instance
        if not waiting:
            freed.clear()


def _changeovers(events: Iterable[Event]) -> Iterator[int]:
    """Pair each user's last moment on a node with the next user's first one there."""
    leaving: dict[str, int] = {}
    left: defaultdict[str, deque[int]] = defaultdict(deque)
    expected: dict[str, int] = {}
    for event in events:
        match event.what:
            case "draining":
                leaving[event.session_id] = event.at_ms
            case "ended" if event.session_id in leaving and event.node_id:
                left[event.node_id].append(leaving.pop(event.session_id))
            case "assigned" if left[event.node_id]:
                expected[event.session_id] = left[event.node_id].popleft()
            case "running" if event.session_id in expected:
                yield event.at_ms - expected.pop(event.session_id)
            case "returned" | "ended":
                expected.pop(event.session_id, None)
            case "node_died":
                left.pop(event.node_id, None)
            case _:
                pass
