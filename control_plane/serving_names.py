"""What does a replica's page of numbers say to those who know the reference's names?

Dashboards made for TeleFuser ask for ``telefuser_serving_*``. What the registry knows is served
here, for the whole fleet and all pools together, the same on each replica; what is played is served
by the nodes themselves (`gpu_node.serving_names`), and no name by both but the uptime. Admissions
are those that this replica answered. As there, ``expired`` counts as closed.

Source: reference, Prometheus section.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from control_plane.numbers import FAILURES, LIVE_STATES, PoolNumbers
from shared.durations import Histogram
from shared.states import NodeState, SessionState

_PREFIX = "telefuser_serving_"
RESULTS = ("assigned", "queued", "rejected")


class ServingNames(Collector):
    """Reads the latest numbers when somebody asks."""

    def __init__(self, admissions: Callable[[], dict[str, float]]) -> None:
        """*admissions* tells how many create calls had which of `RESULTS`."""
        self._admissions = admissions
        self._began_s = time.monotonic()
        self.pools: tuple[PoolNumbers, ...] | None = None
        """None: Redis is out, and what it knows is left out."""

    @property
    def uptime_s(self) -> float:
        """Age of this replica."""
        return time.monotonic() - self._began_s

    def told(self, plays: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
        """Return the same as the reference's JSON; *plays* is what nodes say of their play."""
        pools = self.pools or ()
        summary = {
            "sessions": sessions_of(pools),
            "published_fps": _fps_of(plays),
            "scheduler_mode": None,  # on each node's own page
            "worker_runtime_metrics": plays,
        }
        counters = {
            "session_admissions": self._admissions(),
            "sessions_finished": finished_of(pools),
        }
        return {"summary": summary, "counters": counters}

    def collect(self) -> Iterator[Metric]:
        uptime = GaugeMetricFamily(_PREFIX + "uptime_seconds", "Age of the process.")
        uptime.add_metric((), self.uptime_s)
        yield uptime
        yield _by(
            CounterMetricFamily, "session_admissions", "Create calls.", "result", self._admissions()
        )
        if self.pools is not None:
            yield from _of_fleet(self.pools)


def _of_fleet(pools: tuple[PoolNumbers, ...]) -> Iterator[Metric]:
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield _by(gauge, "sessions", "Sessions.", "state", sessions_of(pools))
    statuses = {str(state): _sum_of(pools, state) for state in LIVE_STATES}
    yield _by(gauge, "session_status", "Live sessions.", "status", statuses)
    waiting = {"admission": sum(pool.waiting for pool in pools)}
    yield _by(gauge, "queue_depth", "Sessions waiting in line.", "queue", waiting)
    yield _by(gauge, "workers", "Nodes.", "state", workers_of(pools))
    text = "Sessions that ended."
    yield _by(counter, "sessions_finished", text, "result", finished_of(pools))
    waits = [pool.durations["queue_wait"] for pool in pools]
    family = HistogramMetricFamily(_PREFIX + "queue_wait_seconds", "Time in line.")
    if waits:
        family.add_metric((), _added(waits), sum(wait.sum_s for wait in waits))
    yield family


def sessions_of(pools: tuple[PoolNumbers, ...]) -> dict[str, float]:
    """Return the reference's four: with a slot, playing, with a slot and not playing, in line."""
    retained = sum(pool.on_stage for pool in pools)
    active = _sum_of(pools, SessionState.RUNNING)
    waiting = sum(pool.waiting for pool in pools)
    return {"retained": retained, "active": active, "idle": retained - active, "waiting": waiting}


def workers_of(pools: tuple[PoolNumbers, ...]) -> dict[str, float]:
    """Return how many nodes there are, and how they do."""
    count = {state: sum(pool.nodes[state] for pool in pools) for state in NodeState if state in
             (NodeState.BUSY, NodeState.IDLE, NodeState.ERROR)}  # fmt: skip
    return {
        "configured": sum(sum(pool.nodes.values()) for pool in pools),
        "busy": count[NodeState.BUSY],
        "idle": count[NodeState.IDLE],
        "failed": count[NodeState.ERROR],
    }


def finished_of(pools: tuple[PoolNumbers, ...]) -> dict[str, float]:
    """Return how many sessions ended well and badly."""
    told = {"closed": 0, "failed": 0}
    for pool in pools:
        for reason, count in pool.ended.items():
            told["failed" if reason in FAILURES else "closed"] += count
    return dict(told)


def _fps_of(plays: Mapping[str, Mapping[str, float]]) -> dict[str, float | None]:
    """Add up what nodes say: frames per second in all, of a session, of the slowest one."""
    playing_ones = [one for one in plays.values() if one.get("playing")]
    rates = [(one["playing"], one.get("fps") or 0.0) for one in playing_ones]
    playing = sum(count for count, _ in rates)
    aggregate = round(sum(count * fps for count, fps in rates), 1)
    return {
        "aggregate": aggregate,
        "per_active_session_mean": round(aggregate / playing, 2) if playing else None,
        "per_active_session_min": min(
            (one["fps_min"] for one in plays.values() if one.get("fps_min")), default=None
        ),
    }


def _by(
    kind: Callable[..., Metric], name: str, text: str, label: str, counts: Mapping[str, float]
) -> Metric:
    family = kind(_PREFIX + name, text, labels=(label,))
    for word, count in counts.items():
        family.add_metric((word,), count)  # type: ignore[attr-defined]
    return family


def _sum_of(pools: tuple[PoolNumbers, ...], state: SessionState) -> int:
    return sum(pool.sessions[state] for pool in pools)


def _added(waits: list[Histogram]) -> list[tuple[str, float]]:
    return [
        (bound, sum(dict(wait.buckets)[bound] for wait in waits)) for bound, _ in waits[0].buckets
    ]
