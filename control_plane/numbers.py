"""What do the counts of one snapshot amount to? Pure.

``/v1/service/metrics/json`` and ``greenroom top`` show these; Prometheus gets the counts. All
numbers of one pool are of one instant, and any replica or terminal makes the same of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.durations import Histogram, histogram, quantile_s
from shared.records import Snapshot
from shared.states import ENDED_AS, ENDED_STATES, NodeState, Reason, SessionState

DURATIONS = (
    ("wait", "queue_wait", "Time in line until the first admission."),
    ("readmission", "readmission_wait", "Time in line after a return until the next admission."),
    ("start", "first_frame", "From getting a slot to the first frame of a session."),
    (
        "recovery",
        "recovery",
        "From the last that a user saw of a lost stage to the first frame of the next.",
    ),
    (
        "kill",
        "kill_to_first_frame",
        "From the last beat of a node or model that died to the next frame of its session.",
    ),
    (
        "idle",
        "slot_idle",
        "From the last that a user saw to the first frame of the next on that slot, who waited.",
    ),
)
"""Total in the registry, metric (with ``greenroom_`` and ``_seconds`` around it), meaning."""
FAILURES = frozenset(str(reason) for reason in Reason if ENDED_AS[reason] is SessionState.FAILED)
ON_STAGE = (
    SessionState.ASSIGNED,
    SessionState.JOINING_ROOM,
    SessionState.STARTING_PIPELINE,
    SessionState.RUNNING,
)
LIVE_STATES = tuple(state for state in SessionState if state not in ENDED_STATES)
LIVE_NODE_STATES = tuple(state for state in NodeState if state is not NodeState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNumbers:
    """One pool at one instant; totals since its registry began."""

    pool: str
    sessions: dict[str, int]
    """Live ones by state."""
    longest_wait_s: float
    slots: int
    used: int
    quarantined: int
    nodes: dict[str, int]
    """Live ones by state."""
    opened: int
    assigned: int
    returned: int
    nodes_died: int
    ended: dict[str, int]
    """By reason, where there were any."""
    durations: dict[str, Histogram]
    """By the metric's name."""

    @property
    def waiting(self) -> int:
        return self.sessions[SessionState.QUEUED]

    @property
    def on_stage(self) -> int:
        return sum(self.sessions[state] for state in ON_STAGE)

    @property
    def ended_total(self) -> int:
        return sum(self.ended.values())

    @property
    def failed_total(self) -> int:
        return sum(count for reason, count in self.ended.items() if reason in FAILURES)


def numbers_of(snapshot: Snapshot) -> PoolNumbers:
    """Add up one snapshot."""
    totals, nodes = snapshot.totals, snapshot.nodes
    return PoolNumbers(
        pool=snapshot.pool,
        sessions={str(state): snapshot.states.get(state, 0) for state in LIVE_STATES},
        longest_wait_s=snapshot.oldest_wait_s,
        slots=sum(node.capacity for node in nodes),
        used=sum(node.used for node in nodes),
        quarantined=sum(node.quarantined for node in nodes),
        nodes={
            str(state): sum(node.state is state for node in nodes) for state in LIVE_NODE_STATES
        },
        opened=totals.get("opened", 0),
        assigned=totals.get("assigned", 0),
        returned=_sum_of(totals, "returned_"),
        nodes_died=totals.get("nodes_died", 0),
        ended=_named(totals, "ended_"),
        durations={metric: histogram(totals, name) for name, metric, _ in DURATIONS},
    )


def as_json(numbers: PoolNumbers) -> dict[str, object]:
    """Return them as programs get them; seconds, and None where nothing was counted."""
    return {
        "pool": numbers.pool,
        "sessions": numbers.sessions,
        "longest_wait_s": numbers.longest_wait_s,
        "slots": {
            "total": numbers.slots,
            "used": numbers.used,
            "quarantined": numbers.quarantined,
        },
        "nodes": numbers.nodes,
        "totals": {
            "opened": numbers.opened,
            "assigned": numbers.assigned,
            "returned": numbers.returned,
            "nodes_died": numbers.nodes_died,
            "ended": numbers.ended,
        },
        "durations_s": {name: spread(one) for name, one in numbers.durations.items()},
    }


def spread(counted: Histogram) -> dict[str, float | int | None]:
    """Return count, mean and two quantiles of some durations."""
    mean_s = counted.sum_s / counted.count if counted.count else None
    return {
        "count": counted.count,
        "mean": None if mean_s is None else round(mean_s, 3),
        "p50": _rounded(quantile_s(counted, 0.5)),
        "p95": _rounded(quantile_s(counted, 0.95)),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _named(totals: dict[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): count
        for name, count in sorted(totals.items())
        if name.startswith(prefix)
    }


def _sum_of(totals: dict[str, int], prefix: str) -> int:
    return sum(_named(totals, prefix).values())
