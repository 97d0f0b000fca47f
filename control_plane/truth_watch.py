"""Does the registry still agree with nodes and rooms, while nobody looks?

Every replica makes the comparison of ``greenroom audit`` now and then, without the scan of keys,
and tells the result as numbers and log lines. It changes nothing, and neither health nor readiness
depend on it: what the rules can heal they heal, the rest is for a person, whom the alert
`GreenroomCapacityTruth` calls.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import NoReturn

import structlog

from control_plane.evidence import LOOK_AGAIN_AFTER_S, Audited, audit
from control_plane.metrics import TruthNumbers
from control_plane.truth import Difference, Part
from control_plane.vitals import Vitals
from shared.errors import Unavailable
from shared.lifecycle import repeat, with_each
from shared.rooms.admin import RoomAdmin
from shared.store import Registry

_LOGGED_AT_ONCE = 20
"""New differences of one check; a broken registry must not drown the log."""
_PAUSE_S_PER_SESSION = 0.00125
"""A look costs Redis 25 us per session: so one replica never takes more than 2 % of it."""

_log = structlog.get_logger()


class TruthWatch:
    """One replica's share of the checks; replicas drift apart by random pauses."""

    def __init__(
        self,
        *,
        registry: Registry,
        rooms: RoomAdmin,
        vitals: Vitals,
        numbers: TruthNumbers,
        pools: tuple[str, ...],
    ) -> None:
        self._registry = registry
        self._rooms = rooms
        self._vitals = vitals
        self._numbers = numbers
        self._known: dict[str, dict[tuple[Part, str], Difference]] = {pool: {} for pool in pools}
        self._sessions = 0
        """Looked at by the last check."""

    async def run(self, every_s: float) -> NoReturn:
        """Check for ever, every *every_s* seconds on average."""

        async def pause_and_check() -> None:
            # The other half of a pause is `repeat`'s.
            await asyncio.sleep(random.uniform(0, every_s))  # noqa: S311 - spreads load, no secret
            await asyncio.sleep(self._sessions * _PAUSE_S_PER_SESSION)
            await self.check()

        await repeat(pause_and_check, name="truth_watch", every_s=every_s / 2)

    async def check(self, *, again_after_s: float = LOOK_AGAIN_AFTER_S) -> None:
        """Check all pools once; one that can't be read keeps no other from it.

        Raises:
            Unavailable: Redis or LiveKit don't answer; what was found before stands.
        """
        self._sessions = 0
        await with_each(self._known, lambda pool: self._check_pool(pool, again_after_s))

    async def _check_pool(self, pool: str, again_after_s: float) -> None:
        try:
            found = await audit(
                self._registry,
                pool,
                rooms=self._rooms if self._vitals.rooms_reachable else None,
                with_keys=False,
                again_after_s=again_after_s,
            )
        except Unavailable:
            self._numbers.checked("unavailable")
            raise
        self._sessions += found.sessions
        self._publish(pool, found)
        self._known[pool] = _tell(pool, self._known[pool], found)

    def _publish(self, pool: str, found: Audited) -> None:
        self._numbers.checked("differs" if found.differences else "agrees")
        count = Counter(one.part for one in found.differences)
        for part in Part:
            self._numbers.differ(pool, part, count[part])


def _tell(
    pool: str, known: dict[tuple[Part, str], Difference], found: Audited
) -> dict[tuple[Part, str], Difference]:
    """Log what is new, and what is over; return what differs now."""
    now = {(one.part, one.subject): one for one in found.differences}
    new = [one for key, one in now.items() if key not in known]
    for one in new[:_LOGGED_AT_ONCE]:
        _log.warning(
            "truth_differs", pool=pool, part=str(one.part), subject=one.subject, text=one.text
        )
    if len(new) > _LOGGED_AT_ONCE:
        _log.warning("truth_differs_more", pool=pool, more=len(new) - _LOGGED_AT_ONCE)
    if over := known.keys() - now.keys():
        _log.info("truth_agrees_again", pool=pool, differences=len(over), left=len(now))
    return now
