"""Which numbers are served, of which kind, under which labels, and what do they mean?

Read off the instruments themselves, by serving them once: a replica's with an empty pool, a node's
as they stand when it begins. For the page in deploy/observability, and for tests that look whether
rules and dashboards ask for what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

from control_plane.metrics import Metrics
from gpu_node import serving_names
from gpu_node.serving_names import NodeNow
from shared.records import Snapshot

REFERENCE = "telefuser_serving_"
_MEASURES = frozenset(("le",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One name."""

    name: str
    """As Prometheus stores it; of a histogram without its ending."""
    kind: str
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """Every name under which it is stored."""
        endings = ("_bucket", "_count", "_sum") if self.kind == "histogram" else ("",)
        return tuple(self.name + ending for ending in endings)


def of_a_replica() -> list[Number]:
    """Return what each replica serves."""
    metrics = Metrics()
    metrics.look((Snapshot(pool="default", nodes=(), states={}, waiting=(), queued=0,
                           oldest_wait_s=0.0, totals={}),))  # fmt: skip
    return sorted(
        _numbers(_collectors_of(vars(metrics)["_registry"])), key=lambda number: number.name
    )


def of_a_node() -> list[Number]:
    """Return what each node serves."""
    ours = [one for one in _collectors_of(REGISTRY) if _is_ours(one)]
    now = NodeNow(node_id="node", gpu="cpu", sessions=0, capacity=1, up=True)
    theirs = serving_names.collector(now)
    return sorted(_numbers([*ours, theirs]), key=lambda number: number.name)


def _collectors_of(registry: object) -> Iterable[Collector]:
    found: dict[Collector, object] = vars(registry)["_collector_to_names"]
    return list(found)


def _is_ours(collector: Collector) -> bool:
    return any(metric.name.startswith("greenroom_") for metric in collector.collect())


def _numbers(collectors: Iterable[Collector]) -> Iterator[Number]:
    for collector in collectors:
        for metric in collector.collect():
            if metric.name.startswith(("greenroom_", REFERENCE)):
                yield _number(collector, metric)


def _number(collector: Collector, metric: Metric) -> Number:
    """An instrument knows its labels itself, what is made when somebody asks tells them."""
    labels = vars(collector).get("_labelnames") or vars(metric).get("_labelnames") or ()
    seen = {name: None for sample in metric.samples for name in sample.labels}
    named = tuple(labels) or tuple(name for name in seen if name not in _MEASURES)
    ending = "_total" if metric.type == "counter" else ""
    return Number(
        name=metric.name + ending, kind=metric.type, labels=named, text=metric.documentation
    )
