"""Where does everybody in line stand, and for how long still, as of a moment ago?

Answers to clients, event streams and the operator's view of the line all want to know. However many
ask, each pool's line is read at most once a second per replica; everybody is answered from that
reading. Places in it may be a second old, so whoever has a fresher one keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import cached_property

from control_plane.estimates import Estimate, Forecast
from shared.errors import StoreUnavailable, UnknownPool
from shared.ids import pool_of
from shared.records import Queued, SessionRecord
from shared.store import Registry
from shared.waiting import Line

KEPT_S = 0.75
"""So that a change of place is told within a second, also to the last of a thousand clients."""


class Reading:
    """One reading of one pool's line."""

    def __init__(self, line: Line, asked_s: float) -> None:
        self.line = line
        self.asked_s = asked_s
        """When it was asked for, monotonic: what was seen later is fresher."""
        self.forecast = Forecast(line)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Place of each session that was seen in line; 1 is the head."""
        return {sid: place for place, sid in enumerate(self.line.waiting, 1)}

    @property
    def is_whole(self) -> bool:
        """Whether all who wait are in it."""
        return self.line.queued <= len(self.line.waiting)


class Lines:
    """The latest reading of each pool's line."""

    def __init__(self, *, registry: Registry, pools: tuple[str, ...]) -> None:
        self._registry = registry
        self._pools = pools
        self._locks = {pool: asyncio.Lock() for pool in pools}
        self._readings: dict[str, Reading] = {}

    async def read(self, pool: str) -> Reading:
        """Return a reading that is at most a second old.

        Raises:
            UnknownPool: This replica doesn't serve it.
            StoreUnavailable: Redis is out.
        """
        if pool not in self._pools:
            raise UnknownPool(pool=pool, served=self._pools)
        async with self._locks[pool]:
            known = self._readings.get(pool)
            now_s = time.monotonic()
            if known is None or now_s - known.asked_s >= KEPT_S:
                known = Reading(await self._registry.line(pool), now_s)
                self._readings[pool] = known
        return known

    def due_in_s(self, pool: str) -> float:
        """Return how long the latest reading of *pool* will still be handed out, at least 0."""
        known = self._readings.get(pool)
        return 0.0 if known is None else max(known.asked_s + KEPT_S - time.monotonic(), 0.0)

    async def estimate(self, record: SessionRecord) -> Estimate | None:
        """Return how long *record* will wait; None if it doesn't, or if that is unknown."""
        if record.position is None:
            return None
        try:
            reading = await self.read(pool_of(record.session_id))
        except StoreUnavailable:
            return None  # the answer itself is there already
        return reading.forecast.of(record.position)

    async def promise(self, opened: Queued) -> Estimate | None:
        """Return what a client is told when it begins to wait, and remember it.

        How far off it was shows when the session is admitted.
        """
        record = opened.session
        estimate = await self.estimate(record)
        if estimate is not None and not opened.replay:
            seconds = (estimate.middle_s, estimate.low_s, estimate.high_s)
            with contextlib.suppress(StoreUnavailable):  # the client waits all the same
                await self._registry.note_estimate(record.session_id, seconds)
        return estimate
