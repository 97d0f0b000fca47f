"""How often may a key or a session be used?

Keys are counted over all replicas, in Redis. A replica doesn't ask it each time: it draws portions,
a tenth of what a key may do in a second. So a busy key costs at most about ten calls a second and
replica, and a slow one a call each time. Undrawn rests make a limit at most a tenth looser for each
replica, once.

While Redis is out, each replica counts for itself what it would have drawn: the limit holds per
replica. The token of a session is only counted where it is used; it is good for one session.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

from control_plane.access import Caller
from control_plane.buckets import Buckets
from shared.access_errors import RateLimited
from shared.clock import Clock, SystemClock
from shared.errors import StoreUnavailable
from shared.store import Registry

BURST_S = 5
"""Seconds' worth that may come at once."""
SESSION_PER_S = 10.0
SESSION_BURST = 50
_METERS_KEPT = 4096
_SESSIONS_KEPT = 20_000


class Use(StrEnum):
    """What is counted apart."""

    CREATE = "create"
    READ = "read"
    """Everything but creating."""


@dataclass(slots=True)
class _Meter:
    """What this replica has drawn for one key and use."""

    left: int = 0
    dry_until_s: float = 0.0
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)


class RateLimits:
    """Counts uses; a limit of 0 counts nothing."""

    def __init__(
        self,
        *,
        registry: Registry,
        creates_per_s: float,
        reads_per_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._registry = registry
        self._per_s = {Use.CREATE: creates_per_s, Use.READ: reads_per_s}
        self._clock = clock or SystemClock()
        self._meters: OrderedDict[tuple[str, Use], _Meter] = OrderedDict()
        self._alone = {
            use: Buckets(per_s=per_s, most=_burst(per_s), names_kept=_METERS_KEPT)
            for use, per_s in self._per_s.items()
            if per_s
        }
        """Counts while Redis is out."""
        self._sessions = Buckets(per_s=SESSION_PER_S, most=SESSION_BURST, names_kept=_SESSIONS_KEPT)

    async def count(self, caller: Caller, use: Use, session_id: str = "") -> None:
        """Count one use by *caller*, of its session if it has shown that one's token.

        Raises:
            RateLimited: That is one too many for now.
        """
        if caller.is_client:
            self._refuse(self._sessions.take(session_id, self._clock.monotonic_s()), "calls")
        elif caller.key_id and self._per_s[use]:
            meter = self._meter(caller.key_id, use)
            if meter.left < 1:
                await self._draw(meter, caller.key_id, use)
            meter.left -= 1

    def _meter(self, key_id: str, use: Use) -> _Meter:
        meter = self._meters.pop((key_id, use), None) or _Meter()
        self._meters[key_id, use] = meter
        if len(self._meters) > _METERS_KEPT:
            self._meters.popitem(last=False)
        return meter

    async def _draw(self, meter: _Meter, key_id: str, use: Use) -> None:
        """See to it that there is one left; one call draws, the others wait for it."""
        async with meter.drawing:
            now_s = self._clock.monotonic_s()
            if meter.left < 1 and now_s >= meter.dry_until_s:
                per_s = self._per_s[use]
                try:
                    drawn = await self._registry.access.draw(
                        f"{key_id}:{use}",
                        per_s=per_s,
                        most=_burst(per_s),
                        wanted=max(1, round(per_s / 10)),
                    )
                except StoreUnavailable:
                    wait_s = self._alone[use].take(key_id, now_s)
                    drawn = -math.ceil(wait_s * 1000) or 1
                if drawn > 0:
                    meter.left += drawn
                else:
                    meter.dry_until_s = self._clock.monotonic_s() - drawn / 1000
            if meter.left < 1:
                self._refuse(max(meter.dry_until_s - now_s, 0.001), f"{use} calls with this key")

    @staticmethod
    def _refuse(wait_s: float, what: str) -> None:
        if wait_s:
            raise RateLimited(what=what, retry_after_s=max(math.ceil(wait_s), 1))


def _burst(per_s: float) -> int:
    return max(math.ceil(per_s * BURST_S), 1)
