"""What do we count here?

Two kinds. What this process did itself: admissions that it answered, script times, chores in
rooms. And what the registry knows: line, sessions, slots, nodes, totals since the registry began.
Those are the same on each replica, so a dashboard takes the maximum over replicas and not the sum.

Labels come from closed sets, never a session or an identity; only node gauges name a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import assert_never

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from control_plane.numbers import DURATIONS, LIVE_NODE_STATES, LIVE_STATES, PoolNumbers, numbers_of
from control_plane.operator_words import RETURNED_BECAUSE
from control_plane.serving_names import RESULTS, ServingNames
from shared.durations import histogram
from shared.records import Admitted, Ended, Opened, Queued, Refused, Snapshot
from shared.states import Judgement, Reason
from shared.store import FAULTS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SCRIPT_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
_RETURNED, _ENDED = "returned_", "ended_"


class Metrics:
    """The instruments of one replica; a registry of their own, so that tests may run several."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._admissions = Counter(
            "greenroom_admissions_total",
            "Create calls that this replica answered, by outcome.",
            ("pool", "outcome"),
            registry=self._registry,
        )
        self._scripts = Histogram(
            "greenroom_script_seconds",
            "Round trip of one registry script.",
            ("script",),
            buckets=_SCRIPT_BUCKETS_S,
            registry=self._registry,
        )
        self._refused = Counter(
            "greenroom_access_refused_total",
            "Calls refused for their key, their token or for how often they came, by reason.",
            ("reason",),
            registry=self._registry,
        )
        # Looking a child up costs as much as counting it; there are few, and they stay.
        self._admission = cache(self._admissions.labels)
        self._script = cache(self._scripts.labels)
        self._chores, self._webhooks = _room_counters(self._registry)
        self._livekit_up, self._redis_up, self._event_streams = _gauges(self._registry)
        self._loop_lag, self._redis_errors = _troubles(self._registry)
        self.truth = TruthNumbers(self._registry)
        self._known, self.serving = _Known(), ServingNames(self._admissions_by_result)
        self._answered = dict.fromkeys(RESULTS, 0.0)
        for collector in (self._known, self.serving):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def admission(self, pool: str, opened: Opened) -> None:
        """One create call was answered."""
        self._admission(pool, _outcome(opened)).inc()
        if (result := _result(opened)) is not None:
            self._answered[result] += 1

    def script(self, name: str, seconds: float) -> None:
        """One script call returned."""
        self._script(name).observe(seconds)

    def redis_failed(self, why: str) -> None:
        """A registry call wasn't answered: one of `shared.store.FAULTS`."""
        self._redis_errors.labels(why).inc()

    def loop_lagged(self, seconds: float) -> None:
        """The event loop came so late to a timer."""
        self._loop_lag.observe(seconds)

    def room_chore(self, chore: str, outcome: str) -> None:
        """One chore is over: done, failed or dropped."""
        self._chores.labels(chore, outcome).inc()

    def webhook(self, outcome: str) -> None:
        """LiveKit told something: looked, repeated, ignored or refused."""
        self._webhooks.labels(outcome).inc()

    def access_refused(self, reason: str) -> None:
        """Somebody was refused: the error's code, a closed set."""
        self._refused.labels(reason).inc()

    def event_streams(self, change: int) -> None:
        """A client began (+1) or stopped (-1) to follow a session."""
        self._event_streams.inc(change)

    def render(
        self, snapshots: tuple[Snapshot, ...] | None, *, redis_up: bool, livekit_up: bool
    ) -> bytes:
        """Return all as Prometheus text; None: Redis is out, what it knows is left out."""
        self.look(snapshots)
        self._redis_up.set(redis_up)
        self._livekit_up.set(livekit_up)
        return generate_latest(self._registry)

    def look(self, snapshots: tuple[Snapshot, ...] | None) -> tuple[PoolNumbers, ...] | None:
        """Take this for what the registry knows; returns what it amounts to."""
        self._known.snapshots = snapshots or ()
        numbers = None if snapshots is None else tuple(map(numbers_of, snapshots))
        self.serving.pools = numbers
        return numbers

    def _admissions_by_result(self) -> dict[str, float]:
        return self._answered


def _gauges(registry: CollectorRegistry) -> tuple[Gauge, Gauge, Gauge]:
    """Return what says that LiveKit and Redis answer, and how many clients follow a session."""
    return (
        Gauge("greenroom_livekit_up", "1 if LiveKit answered the last probe.", registry=registry),
        Gauge(
            "greenroom_redis_up",
            "1 if Redis answered the last look at all pools.",
            registry=registry,
        ),
        Gauge(
            "greenroom_event_streams",
            "Clients that follow a session's events on this replica.",
            registry=registry,
        ),
    )


def _troubles(registry: CollectorRegistry) -> tuple[Histogram, Counter]:
    """Return what tells that this process or its way to Redis is in trouble."""
    loop_lag = Histogram(
        "greenroom_loop_lag_seconds",
        "How late this replica's event loop comes to its timers.",
        buckets=_SCRIPT_BUCKETS_S,
        registry=registry,
    )
    redis_errors = Counter(
        "greenroom_redis_errors_total",
        "Registry calls of this replica that weren't answered, by why.",
        ("why",),
        registry=registry,
    )
    for why in FAULTS:
        redis_errors.labels(why)
    return loop_lag, redis_errors


def _room_counters(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    """Return what counts the chores in rooms, and the events that are told of them."""
    chores = Counter(
        "greenroom_room_chores_total",
        "Rooms deleted, looked into, and told of returns by this replica, by outcome.",
        ("chore", "outcome"),
        registry=registry,
    )
    webhooks = Counter(
        "greenroom_webhooks_total",
        "Events that LiveKit told this replica, by what became of them.",
        ("outcome",),
        registry=registry,
    )
    for chore in ("delete_room", "announce_return", "look_into_room", "look_for_client"):
        for outcome in ("done", "failed", "dropped"):
            chores.labels(chore, outcome)
    for outcome in ("looked", "repeated", "ignored", "refused"):
        webhooks.labels(outcome)
    return chores, webhooks


class TruthNumbers:
    """What this replica found when it compared ledger, nodes and rooms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._checks = Counter(
            "greenroom_truth_checks_total",
            "Comparisons of ledger, nodes and rooms by this replica, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self._differences = Gauge(
            "greenroom_truth_differences",
            "Lasting differences between ledger, nodes and rooms that the last check found.",
            ("pool", "part"),
            registry=registry,
        )
        for outcome in ("agrees", "differs", "unavailable"):
            self._checks.labels(outcome)

    def checked(self, outcome: str) -> None:
        """One comparison is over: agrees, differs or unavailable."""
        self._checks.labels(outcome).inc()

    def differ(self, pool: str, part: str, count: int) -> None:
        """How much of one kind differs by now."""
        self._differences.labels(pool, part).set(count)


def _result(opened: Opened) -> str | None:
    """In the words of the reference; None: nobody came, somebody asked again."""
    match opened:
        case Refused():
            return "rejected"
        case Admitted(replay=False):
            return "assigned"
        case Queued(replay=False):
            return "queued"
        case _:
            return None


def _outcome(opened: Opened) -> str:
    match opened:
        case Refused():
            return opened.detail
        case Ended():
            return "replayed"
        case Admitted():
            return "replayed" if opened.replay else "assigned"
        case Queued():
            return "replayed" if opened.replay else "queued"
        case _:
            assert_never(opened)


class _Known(Collector):
    """Turns the latest snapshots into metrics when they are asked for."""

    def __init__(self) -> None:
        self.snapshots: tuple[Snapshot, ...] = ()

    def collect(self) -> Iterator[Metric]:
        yield from self._line()
        yield from self._nodes()
        yield from self._totals()
        yield from self._durations()

    def _line(self) -> Iterator[Metric]:
        sessions = GaugeMetricFamily(
            "greenroom_sessions", "Live sessions by state.", labels=("pool", "state")
        )
        depth = GaugeMetricFamily(
            "greenroom_queue_depth", "Sessions waiting in line.", labels=("pool",)
        )
        oldest = GaugeMetricFamily(
            "greenroom_queue_oldest_wait_seconds",
            "How long the head of the line has waited.",
            labels=("pool",),
        )
        for pool in self.snapshots:
            for state in LIVE_STATES:
                sessions.add_metric((pool.pool, state), pool.states.get(state, 0))
            depth.add_metric((pool.pool,), pool.queued)
            oldest.add_metric((pool.pool,), pool.oldest_wait_s)
        yield from (sessions, depth, oldest)

    def _nodes(self) -> Iterator[Metric]:
        slots = GaugeMetricFamily(
            "greenroom_slots", "Slots of live nodes by kind.", labels=("pool", "kind")
        )
        nodes = GaugeMetricFamily(
            "greenroom_nodes", "Live nodes by state.", labels=("pool", "state")
        )
        suspects = GaugeMetricFamily(
            "greenroom_nodes_suspect", "Live nodes that failed too often.", labels=("pool",)
        )
        silence = GaugeMetricFamily(
            "greenroom_node_silence_seconds",
            "Time since the last beat of a live node.",
            labels=("pool", "node"),
        )
        for pool in self.snapshots:
            known = pool.nodes
            slots.add_metric((pool.pool, "total"), sum(node.capacity for node in known))
            slots.add_metric((pool.pool, "used"), sum(node.used for node in known))
            slots.add_metric((pool.pool, "quarantined"), sum(node.quarantined for node in known))
            for state in LIVE_NODE_STATES:
                nodes.add_metric((pool.pool, state), sum(node.state is state for node in known))
            suspect = sum(node.judged is Judgement.SUSPECT for node in known)
            suspects.add_metric((pool.pool,), suspect)
            for node in known:
                silence.add_metric((pool.pool, node.node_id), node.beat_age_s)
        yield from (slots, nodes, suspects, silence)

    def _totals(self) -> Iterator[Metric]:
        plain = {
            name: CounterMetricFamily(f"greenroom_{metric}", text, labels=("pool",))
            for name, metric, text in _PLAIN_TOTALS
        }
        returned = CounterMetricFamily(
            "greenroom_sessions_returned",
            "Returns to the line, by cause.",
            labels=("pool", "why"),
        )
        ended = CounterMetricFamily(
            "greenroom_sessions_ended", "Sessions that ended, by reason.", labels=("pool", "reason")
        )
        for pool in self.snapshots:
            for name, family in plain.items():
                family.add_metric((pool.pool,), pool.totals.get(name, 0))
            for reason in Reason:
                ended.add_metric((pool.pool, reason), pool.totals.get(_ENDED + reason, 0))
            # From 0 on: a counter that begins with its first event doesn't seem to have risen.
            causes = dict.fromkeys(RETURNED_BECAUSE, 0) | dict(_named(pool.totals, _RETURNED))
            for why, count in causes.items():
                returned.add_metric((pool.pool, why), count)
        yield from (*plain.values(), returned, ended)

    def _durations(self) -> Iterator[Metric]:
        for name, metric, text in DURATIONS:
            family = HistogramMetricFamily(f"greenroom_{metric}_seconds", text, labels=("pool",))
            for pool in self.snapshots:
                counted = histogram(pool.totals, name)
                family.add_metric((pool.pool,), counted.buckets, counted.sum_s)
            yield family
        yield from self._estimates()

    def _estimates(self) -> Iterator[Metric]:
        error = HistogramMetricFamily(
            "greenroom_estimate_error_seconds",
            "How much sooner or later a session was admitted than its client was told.",
            labels=("pool", "side"),
        )
        outcomes = CounterMetricFamily(
            "greenroom_estimates",
            "Admissions within the range that the client was told, sooner, or later.",
            labels=("pool", "outcome"),
        )
        for pool in self.snapshots:
            for side in _SIDES:
                counted = histogram(pool.totals, f"estimate_{side}")
                error.add_metric((pool.pool, side), counted.buckets, counted.sum_s)
            for outcome in ("within", *_SIDES):
                count = pool.totals.get(f"estimated_{outcome}", 0)
                outcomes.add_metric((pool.pool, outcome), count)
        yield from (error, outcomes)


_SIDES = ("sooner", "later")
_PLAIN_TOTALS = (
    ("opened", "sessions_opened", "Sessions that were accepted."),
    ("assigned", "sessions_assigned", "Assignments of a session to a node."),
    ("nodes_died", "nodes_died", "Nodes declared dead."),
)


def _named(totals: Mapping[str, int], prefix: str) -> Iterator[tuple[str, int]]:
    return (
        (name.removeprefix(prefix), count)
        for name, count in totals.items()
        if name.startswith(prefix)
    )
