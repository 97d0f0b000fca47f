"""What was left behind by a node or session that fell silent?

Every replica sweeps every pool, four times a second give or take, without a leader: a sweep that
another one has just done finds nothing. The scripts decide and change the registry; what follows in
the rooms is only noted down for `room_chores`, so a slow LiveKit never delays the next sweep.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from control_plane.room_chores import RoomChores
from shared.lifecycle import repeat, with_each
from shared.records import Swept
from shared.store import Registry

SWEEP_EVERY_S = 0.25
_MOST_CALLS = 32
"""Of one script in one sweep; the rest is for the next sweep or another replica."""

_log = structlog.get_logger()


class Sweeper:
    """One replica's share of the sweeping."""

    def __init__(self, *, registry: Registry, chores: RoomChores, pools: tuple[str, ...]) -> None:
        self._registry = registry
        self._chores = chores
        self._pools = pools

    async def run(self) -> NoReturn:
        """Sweep for ever; replicas that started together drift apart by the random pause."""
        shortest_s = SWEEP_EVERY_S / 2
        await repeat(self._pause_and_sweep, name="sweeper", every_s=shortest_s, longest_s=1.0)

    async def _pause_and_sweep(self) -> None:
        await asyncio.sleep(random.uniform(0, SWEEP_EVERY_S))  # noqa: S311 - spreads load, no secret
        await self.sweep()

    async def sweep(self) -> None:
        """Sweep all pools once; one that can't be swept keeps no other from it.

        Raises:
            StoreUnavailable: Of one at least.
        """
        sweeps = (self._registry.sweep_nodes, self._registry.sweep_deadlines)
        await with_each(itertools.product(self._pools, sweeps), self._until_done)

    async def _until_done(self, what: tuple[str, Callable[[str], Awaitable[Swept]]]) -> None:
        pool, sweep = what
        for _ in range(_MOST_CALLS):
            swept = await sweep(pool)
            self._follow_up(pool, swept)
            if not swept.more:
                return

    def _follow_up(self, pool: str, swept: Swept) -> None:
        for node_id in swept.dead_nodes:
            _log.warning("node_died", pool=pool, node=node_id)
        for back in swept.returns:
            _log.warning("session_returned", session=back.session_id, why=back.why)
            self._chores.announce_return(back)
        for suspect in swept.suspects:
            self._chores.look_for_client(suspect)
        for ending in swept.endings:
            _log.info("session_ended", session=ending.session_id, reason=ending.reason)
            self._chores.delete_room(ending.session_id)
