"""How long will the wait be, if that can be said? Pure.

What moves the line is that slots come free. How long they are held is learned from the last
sessions that ran (`Line.holds_s`), so a forecast plays the coming hours through a few dozen times:
each taken slot is held for as long as one of those sessions that lasted at least as long as this
one has by now, then the head of the line holds it for as long as any of them. The median over all
plays is the estimate of a place, the tenth and the ninetieth percentile are its range.

It says nothing (None) rather than something wrong: with no slot that serves the line, and with
fewer than three sessions to learn from. The plays use one fixed series of random numbers: the same
line gives the same forecast on every replica, and it changes only when the line does.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heapreplace

from shared.waiting import Line

SAMPLES_NEEDED = 3
SOONEST_S = 1.0
"""Whoever still waits isn't there yet: an estimate is never 0."""
_OFF_SHARE, _OFF_LEAST_S = 0.2, 5.0
_PLAYS = 41
_LOW, _MIDDLE, _HIGH = 4, 20, 36
"""Ranks among the sorted plays: about the 10th, 50th and 90th percentile."""
_SLOTS_PLAYED = 48
"""Of a larger fleet a part stands for all: then each place played is several places."""
_PLACES_PLAYED = 96
_OVERRUN_SHARE = 0.1
"""Who outlasted all known sessions is thought to go within this share of a usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a place in line is expected to wait from now on, in seconds."""

    middle_s: float
    low_s: float
    high_s: float

    @property
    def range_s(self) -> list[float]:
        return [self.low_s, self.high_s]


def is_off(told: Estimate | None, now: Estimate | None, passed_s: float) -> bool:
    """Whether *now* is other news than *told*, counted down by the time that has passed."""
    if told is None or now is None:
        return told is not now
    counted_down_s = max(told.middle_s - passed_s, 0.0)
    return abs(now.middle_s - counted_down_s) > max(_OFF_LEAST_S, _OFF_SHARE * now.middle_s)


class Forecast:
    """What can be said about each place of one line at one instant."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._holds = sorted(line.holds_s)

    @property
    def samples(self) -> int:
        """How many sessions it is learned from."""
        return len(self._holds)

    @property
    def usual_hold_s(self) -> float | None:
        """How long a slot is usually held; None: unknown."""
        return self._holds[len(self._holds) // 2] if self._is_known else None

    def of(self, position: int) -> Estimate | None:
        """Return the estimate for a place; 1 is the head of the line."""
        if not self._is_known or self._line.slots <= 0 or position < 1:
            return None
        return Estimate(
            low_s=self._at(position, _LOW),
            middle_s=self._at(position, _MIDDLE),
            high_s=self._at(position, _HIGH),
        )

    @property
    def _is_known(self) -> bool:
        return len(self._holds) >= SAMPLES_NEEDED

    def _at(self, position: int, rank: int) -> float:
        """Read one percentile; between two played places in proportion, beyond the last by pace."""
        played = self._played
        place = position / self._scale
        last = len(played) - 1
        if place > last + 1:
            pace_s = sum(self._holds) / len(self._holds) / self._slots
            return _rounded(played[last][rank] + (place - last - 1) * pace_s)
        before = max(int(place) - 1, 0)
        after = min(before + 1, last)
        share = max(place - 1 - before, 0.0)
        earlier, later = played[before][rank], played[after][rank]
        return _rounded(earlier + (later - earlier) * share)

    @cached_property
    def _slots(self) -> int:
        return min(self._line.slots, _SLOTS_PLAYED)

    @cached_property
    def _scale(self) -> float:
        """How many slots, and so places, one that is played stands for."""
        return self._line.slots / self._slots

    @cached_property
    def _played(self) -> list[list[float]]:
        """For each played place the sorted times at which it was reached."""
        places = min(max(self._line.queued, 1), _PLACES_PLAYED)
        chance = random.Random(0)  # noqa: S311 - a forecast, no secret
        plays = [self._play(chance, places) for _ in range(_PLAYS)]
        return [sorted(times) for times in zip(*plays, strict=True)]

    def _play(self, chance: random.Random, places: int) -> list[float]:
        taken = min(round(self._line.taken / self._scale), self._slots)
        ends = [self._remaining_s(held_s, chance) for held_s in _spread(self._line.held_s, taken)]
        ends += [0.0] * (self._slots - len(ends))
        heapify(ends)
        reached = []
        for _ in range(places):
            now_s = ends[0]
            reached.append(now_s)
            heapreplace(ends, now_s + chance.choice(self._holds))
        return reached

    def _remaining_s(self, held_s: float, chance: random.Random) -> float:
        longer = len(self._holds) - bisect_right(self._holds, held_s)
        if longer:
            return self._holds[-1 - int(chance.random() * longer)] - held_s
        return chance.random() * _OVERRUN_SHARE * self._holds[len(self._holds) // 2]


def _rounded(seconds: float) -> float:
    return round(max(seconds, SOONEST_S), 1)


def _spread(seen: Sequence[float], count: int) -> list[float]:
    """Return *count* of what was seen, evenly spread; each several times if fewer were seen."""
    if not seen:
        return [0.0] * count
    return [seen[i * len(seen) // count] for i in range(count)]
