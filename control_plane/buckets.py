"""How often may each of many do something, as counted in this process alone? Pure.

A bucket per name: it is full at first, each use takes one, and it fills again by itself. The names
come from strangers, so only the latest are kept; whoever is forgotten has a full bucket again.
"""

from __future__ import annotations

from collections import OrderedDict


class Buckets:
    """Buckets of *most* that fill with *per_s*, for the *names_kept* that came last."""

    def __init__(self, *, per_s: float, most: float, names_kept: int) -> None:
        self._per_s = per_s
        self._most = most
        self._names_kept = names_kept
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Level and the time at which it was so."""

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, now_s: float) -> float:
        """Take one of *name*'s; returns 0, or the seconds until there is one again."""
        level, at_s = self._levels.pop(name, (self._most, now_s))
        level = min(self._most, level + max(now_s - at_s, 0.0) * self._per_s)
        wait_s = max(1.0 - level, 0.0) / self._per_s
        self._levels[name] = (level if wait_s else level - 1.0, now_s)
        if len(self._levels) > self._names_kept:
            self._levels.popitem(last=False)
        return wait_s
