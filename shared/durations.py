"""How are durations counted in the registry, so that each replica shows the same histogram? Pure.

A script adds one to the total that is named after the first bound that the duration doesn't exceed
(``wait_le_10``, ``wait_le_inf``) and the duration itself to a sum (``wait_ms``). Nothing is lost
with a replica, and whichever replica is asked adds up the same totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BOUNDS: tuple[tuple[str, int], ...] = tuple(
    (name, round(float(name) * 1000))
    for name in ("0.1", "1", "2", "5", "10", "20", "30", "60", "120", "300", "600", "1200", "1800",
                 "3600")
)  # fmt: skip
"""Name (seconds) and upper bound (ms) of each bucket; the last one, ``inf``, has no bound."""
UNBOUNDED = "inf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Durations of one kind since the registry began."""

    buckets: tuple[tuple[str, int], ...]
    """Upper bound in seconds, and how many didn't exceed it."""
    sum_s: float

    @property
    def count(self) -> int:
        return self.buckets[-1][1]


def quantile_s(counted: Histogram, share: float) -> float | None:
    """Return about how many seconds *share* of the durations didn't exceed, as Prometheus does.

    Returns:
        Within a bucket in proportion; the highest bound if they exceed it. None: there are none.
    """
    if not counted.count:
        return None
    wanted, below, low_s = share * counted.count, 0, 0.0
    for bound, count in counted.buckets:
        if bound == "+Inf":
            break
        if count >= wanted:
            width_s = float(bound) - low_s
            return low_s + width_s * (wanted - below) / max(count - below, 1)
        below, low_s = count, float(bound)
    return low_s


def since(earlier: Histogram, later: Histogram) -> Histogram:
    """Return what was counted between two looks; all of it if the registry began anew."""
    if later.count < earlier.count:
        return later
    before = dict(earlier.buckets)
    return Histogram(
        buckets=tuple((bound, max(count - before[bound], 0)) for bound, count in later.buckets),
        sum_s=max(later.sum_s - earlier.sum_s, 0.0),
    )


def histogram(totals: Mapping[str, int], name: str) -> Histogram:
    """Add up the totals of the durations that were counted as *name*."""
    buckets, count = [], 0
    for bound in (*(bound for bound, _ in BOUNDS), UNBOUNDED):
        count += totals.get(f"{name}_le_{bound}", 0)
        buckets.append(("+Inf" if bound == UNBOUNDED else bound, count))
    return Histogram(buckets=tuple(buckets), sum_s=totals.get(f"{name}_ms", 0) / 1000)
