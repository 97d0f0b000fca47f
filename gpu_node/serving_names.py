"""What does a node's page of numbers say to those who know the reference's names?

Dashboards made for TeleFuser ask for ``telefuser_serving_*``. What is played on a node is served
here, under the labels that they expect; the line, admissions and sessions by status are the
fleet's, and a replica serves them. Nothing is counted a second time: our own instruments are read
and told under other names when somebody asks.

Source: reference, Prometheus section. Left out: `taew_decode_*`, which is one model's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_node.metrics import PLAY, last_stages
from gpu_node.recent_play import at_share

_PREFIX = "telefuser_serving_"
_OURS = "greenroom_node_"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNow:
    """What gauges by worker need to know; one worker of the reference is one node."""

    node_id: str
    gpu: str
    """Its GPUs, as CUDA names them; ``cpu`` without one."""
    sessions: int
    capacity: int
    up: bool


_RENAMED = (
    ("action_to_first_frame_seconds", "action_to_first_frame_seconds"),
    ("chunk_latency_seconds", "chunk_seconds"),
    ("pipeline_stage_latency_seconds", "stage_seconds"),
    ("slo_budget_seconds", "slo_budget_seconds"),
    ("batch_size", "batch_size"),
    ("errors", "service_faults"),
    ("batches", "batches"),
    ("scheduler_mode_info", "scheduler_mode"),
)
"""Their name, and ours for the same thing."""


def node_text(now: NodeNow) -> bytes:
    """Return a node's page as Prometheus text: ours and theirs, of one moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(now))
    return generate_latest(registry)


def collector(now: NodeNow) -> Collector:
    """Return what reads our instruments as they are now."""
    return _Serving(now, list(REGISTRY.collect()))


class _Page(Collector):
    def __init__(self, now: NodeNow) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        ours = list(REGISTRY.collect())
        yield from ours
        yield from _Serving(self._now, ours).collect()


class _Serving(Collector):
    def __init__(self, now: NodeNow, ours: list[Metric]) -> None:
        self._now = now
        self._ours = {metric.name.removeprefix(_OURS): metric for metric in ours}

    def collect(self) -> Iterator[Metric]:
        for theirs, ours in _RENAMED:
            yield self._renamed(theirs, ours)
        yield from self._counters()
        yield from self._worker()
        yield from self._recent()

    def _renamed(self, theirs: str, ours: str) -> Metric:
        found = self._ours[ours]
        told = Metric(_PREFIX + theirs, found.documentation, found.type)
        for sample in found.samples:
            if not sample.name.endswith("_created"):
                name = sample.name.replace(_OURS + ours, _PREFIX + theirs, 1)
                told.add_sample(name, sample.labels, sample.value)
        return told

    def _value(self, name: str, sample: str = "_total", **labels: str) -> float:
        wanted = f"{_OURS}{name}{sample}"
        return sum(
            one.value
            for one in self._ours[name].samples
            if one.name == wanted and labels.items() <= one.labels.items()
        )

    def _counters(self) -> Iterator[Metric]:
        made, faults = self._value("chunks"), self._value("service_faults")
        yield _counter("actions", "Controls that a service was given.", self._actions())
        yield _results("model_outputs", "What services made.", chunk=made, error=faults)
        yield _results("chunks", "Chunks.", processed=made, published=made)
        yield _results("frames", "Frames.", published=self._value("frames"))
        met, missed = (self._value("slo_chunks", outcome=word) for word in ("met", "missed"))
        yield _results("slo_chunks", "Chunks made in the time they play.", met=met, missed=missed)
        items, batches = self._value("batch_size", "_count"), self._value("batches")
        yield _counter("batch_items", "Chunks made in batches.", items)
        if batches:
            yield _gauge("mean_batch_size", "Sessions made together.", items / batches)
        yield _results("migrations", "Moves of a model's state.", success=0.0, error=0.0)
        if met + missed:
            text = "Share of chunks made in the time they play."
            yield _gauge("slo_attainment_ratio", text, met / (met + missed))

    def _actions(self) -> float:
        return self._value("controls", outcome="applied")

    def _worker(self) -> Iterator[Metric]:
        now, played = self._now, PLAY.played()
        busy = now.sessions / now.capacity if now.capacity else 0.0
        for name, text, value in (
            ("sessions", "Sessions held.", now.sessions),
            ("capacity", "Sessions that it keeps at once.", now.capacity),
            ("up", "1 while it can serve.", now.up),
            ("busy_ratio", "Share of its slots in use.", busy),
            ("active_sessions", "Sessions that played lately.", len(played.session_fps)),
            ("maximum_batch_size", "Sessions made together, at most.", self._largest_batch()),
        ):
            yield self._by_worker(f"worker_{name}", text, float(value))
        if took := played.chunk_s:
            family = self._family("worker_chunk_latency_seconds", "Time for a chunk.", "stat")
            mean_s = sum(took) / len(took)
            for stat, value in (("mean", mean_s), ("p95", at_share(took, 0.95))):
                family.add_metric((now.node_id, now.gpu, stat), value)
            yield family
        name = "worker_pipeline_stage_last_latency_seconds"
        stages = self._family(name, "Last time in a stage of the model.", "stage")
        for stage, seconds in last_stages.items():
            stages.add_metric((now.node_id, now.gpu, stage), seconds)
        yield stages

    def _largest_batch(self) -> float:
        """The bound of the highest bucket that has any."""
        largest, before = 1.0, 0.0
        for sample in self._ours["batch_size"].samples:
            bound = sample.labels.get("le", "+Inf")
            if bound != "+Inf" and sample.value > before:
                largest, before = float(bound), sample.value
        return largest

    def _family(self, name: str, text: str, label: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(_PREFIX + name, text, labels=("worker_id", "gpu", label))

    def _by_worker(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(_PREFIX + name, text, labels=("worker_id", "gpu"))
        family.add_metric((self._now.node_id, self._now.gpu), value)
        return family

    def _recent(self) -> Iterator[Metric]:
        played = PLAY.played()
        text = "Frames per second that left in the last half minute."
        family = GaugeMetricFamily(_PREFIX + "published_fps", text, labels=("scope",))
        family.add_metric(("aggregate",), played.fps)
        if rates := played.session_fps:
            for scope, value in (
                ("mean", played.fps / len(rates)),
                ("p50", at_share(rates, 0.5)),
                ("p95", at_share(rates, 0.95)),
                ("min", rates[0]),
            ):
                family.add_metric((f"per_active_session_{scope}",), value)
        yield family
        if began := self._ours.get("process_start_time_seconds"):
            age_s = time.time() - began.samples[0].value
            yield _gauge("uptime_seconds", "Age of the process.", age_s)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value=value)


def _results(name: str, text: str, **counts: float) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=("result",))
    for result, count in counts.items():
        family.add_metric((result,), count)
    return family
