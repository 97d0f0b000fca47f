"""How do Redis, LiveKit and the nodes do, at most a moment ago?

Health checks, metrics and admission all want to know, often and at once. So LiveKit is probed in
the background and the registry's snapshot is shared for a second: however many ask, each of the two
servers is asked about once per second.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, NoReturn

import structlog

from shared.errors import StoreUnavailable
from shared.lifecycle import repeat
from shared.records import Snapshot
from shared.rooms.admin import RoomAdmin
from shared.store import Registry

PROBE_EVERY_S = 2.0
PROBE_AGAIN_S = 0.5
"""While LiveKit is out, so that its return is seen soon."""
SNAPSHOT_KEPT_S = 1.0

_log = structlog.get_logger()


class Vitals:
    """One replica's latest look at what it depends on."""

    def __init__(self, *, registry: Registry, rooms: RoomAdmin, pools: tuple[str, ...]) -> None:
        self._registry = registry
        self._rooms = rooms
        self._pools = pools
        self._rooms_reachable = False
        self.is_leaving = False
        """This replica is about to end; it says so to whoever asks if it's ready."""
        self._look = asyncio.Lock()
        self._seen: tuple[Snapshot, ...] | StoreUnavailable = ()
        self._seen_until_s = 0.0
        self._dark: tuple[str, ...] = ()
        self._read_of: tuple[Snapshot, ...] = ()
        self._read: dict[str, dict[str, dict[str, Any]]] = {}
        """By field, what the nodes of that look say beside it."""

    @property
    def rooms_reachable(self) -> bool:
        """Whether LiveKit answered the last probe."""
        return self._rooms_reachable

    @property
    def concerns(self) -> tuple[str, ...]:
        """What an operator should know of Redis; it stops nobody, or not everybody."""
        unread = (f"The pool {pool} can't be read: nobody is served there." for pool in self._dark)
        return (*self._registry.concerns, *unread)

    @property
    def dark_pools(self) -> tuple[str, ...]:
        """Those that couldn't be read at the last look, while others could."""
        return self._dark

    def leave(self) -> None:
        """Be ready no longer, whatever the deployment is."""
        self.is_leaving = True

    async def probe_rooms(self) -> None:
        """Ask LiveKit once."""
        reachable = await self._rooms.probe()
        if reachable != self._rooms_reachable:
            _log.info("livekit_reachable" if reachable else "livekit_unreachable")
        self._rooms_reachable = reachable

    async def run(self) -> NoReturn:
        """Keep asking LiveKit."""
        await repeat(self._probe_and_rest, name="livekit_probe", every_s=PROBE_AGAIN_S)

    async def _probe_and_rest(self) -> None:
        await self.probe_rooms()
        if self._rooms_reachable:
            await asyncio.sleep(PROBE_EVERY_S - PROBE_AGAIN_S)

    async def snapshots(self) -> tuple[Snapshot, ...]:
        """Return one snapshot for each pool that can be read, at most a second old.

        Raises:
            StoreUnavailable: None can: Redis is out; that too is remembered for a second.
        """
        async with self._look:
            if time.monotonic() >= self._seen_until_s:
                self._seen = await self._take_snapshots()
                self._seen_until_s = time.monotonic() + SNAPSHOT_KEPT_S
        if isinstance(self._seen, StoreUnavailable):
            raise StoreUnavailable(why="no answer to the last look") from self._seen
        return self._seen

    async def session_capacities(self) -> dict[str, dict[str, Any]]:
        """Return by node how its service came to its number of sessions, where it says so.

        Raises:
            StoreUnavailable: Redis is out.
        """
        return await self._told("session_capacity")

    async def node_options(self) -> dict[str, dict[str, Any]]:
        """Return by node how it was set; raises `StoreUnavailable`."""
        return await self._told("options")

    async def plays(self) -> dict[str, dict[str, Any]]:
        """Return by node how it plays, where anybody plays; raises `StoreUnavailable`."""
        return await self._told("play")

    async def _told(self, field: str) -> dict[str, dict[str, Any]]:
        """Return what nodes say under *field*; anybody may ask, so each look is asked once."""
        snapshots = await self.snapshots()
        if self._read_of is not snapshots:
            self._read_of, self._read = snapshots, {}
        if field not in self._read:
            self._read[field] = await self._read_of_nodes(snapshots, field)
        return self._read[field]

    async def _read_of_nodes(
        self, snapshots: tuple[Snapshot, ...], field: str
    ) -> dict[str, dict[str, Any]]:
        told: dict[str, dict[str, Any]] = {}
        for seen in snapshots:
            names = [node.node_id for node in seen.nodes]
            facts = await self._registry.inspection.look(seen.pool, nodes=names)
            for node in facts.nodes:
                found = json.loads(node.record.get(field) or "null")
                if isinstance(found, dict):
                    told[node.node_id] = found
        return told

    async def _take_snapshots(self) -> tuple[Snapshot, ...] | StoreUnavailable:
        looks = [self._snapshot_of(pool) for pool in self._pools]  # at once: each may wait a second
        found = dict(zip(self._pools, await asyncio.gather(*looks), strict=True))
        read = tuple(one for one in found.values() if isinstance(one, Snapshot))
        dark = tuple(pool for pool, one in found.items() if not isinstance(one, Snapshot))
        self._note_dark(dark if read else ())
        return read or next(one for one in found.values() if isinstance(one, StoreUnavailable))

    def _note_dark(self, pools: tuple[str, ...]) -> None:
        if pools and pools != self._dark:
            _log.warning("pools_unread", pools=pools)
        elif self._dark and not pools:
            _log.info("pools_unread_no_more")
        self._dark = pools

    async def _snapshot_of(self, pool: str) -> Snapshot | StoreUnavailable:
        try:
            return await self._registry.snapshot(pool)
        except StoreUnavailable as unavailable:
            return unavailable
