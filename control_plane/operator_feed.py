"""What do all operators see who watch here, and how often is the registry asked for it?

While anybody watches, the pools are read once a second, however many watch; nobody watches, nothing
is read. Each watcher gets the latest look; a slow one misses some, never the last.

A look is bounded: the first ones in line, the nodes (those that need attention first, where there
are too many), the sessions that came on stage last, and those that ended last. Numbers count all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NoReturn

from control_plane.lines import Lines
from control_plane.operator_shapes import Overview
from control_plane.operator_view import (
    PoolReading,
    lasting_part,
    moving_part,
    pool_sight,
    without_identities,
)
from control_plane.setbacks import SetbackCount
from shared.errors import ReplicaStopping, StoreUnavailable
from shared.facts import NodeFacts
from shared.lifecycle import repeat, with_each
from shared.records import NodeRecord
from shared.states import Admin, Judgement, NodeState
from shared.store import Registry
from shared.store.listing import ENDED, LINE

LOOK_EVERY_S = 1.0
LINE_SHOWN = 100
NODES_SHOWN = 256
ON_STAGE_SHOWN = 200
ENDED_SHOWN = 50
_FIRST_LOOK_WITHIN_S = 3.0
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Look:
    """All pools as they were seen at one time; encoded once, however many watch."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self.taken_s = time.monotonic()

    @cached_property
    def id(self) -> str:
        """Names what lasts in it: the same on each replica that sees the same."""
        told = _encode(lasting_part(self._overview)).encode()
        return hashlib.sha256(told).hexdigest()[:16]

    @cached_property
    def anonymous(self) -> str:
        """The whole of it as JSON, without saying who anybody is."""
        return _encode(without_identities(self._overview))

    @cached_property
    def named(self) -> str:
        """The whole of it as JSON."""
        return _encode(self._overview)

    @cached_property
    def moving(self) -> str:
        """What moves all the time, as JSON."""
        return _encode(moving_part(self._overview))


class Watcher:
    """One operator's view; made by `OperatorFeed.watch`."""

    def __init__(self, feed: OperatorFeed) -> None:
        self._feed = feed
        self._latest: Look | None = None
        self._told = asyncio.Event()
        self._is_dismissed = False

    async def first(self) -> Look:
        """Return a look that is about a second old at most.

        Raises:
            StoreUnavailable: Redis is out.
            ReplicaStopping: Nothing more will come from here.
        """
        try:
            async with asyncio.timeout(_FIRST_LOOK_WITHIN_S):
                look = await self.next()
        except TimeoutError:
            raise StoreUnavailable(why="no answer in time") from None
        if look is None:
            raise ReplicaStopping
        return look

    async def next(self) -> Look | None:
        """Return the latest look once there is a new one; None: this replica is stopping."""
        await self._told.wait()
        self._told.clear()
        return None if self._is_dismissed else self._latest

    def tell(self, look: Look) -> None:
        """Replace the look."""
        self._latest = look
        self._told.set()

    def dismiss(self) -> None:
        """Say that nothing more will come from here."""
        self._is_dismissed = True
        self._told.set()

    def close(self) -> None:
        """Watch no longer; harmless when done twice."""
        self._feed.forget(self)


class OperatorFeed:
    """Looks at the pools of one replica on behalf of all who watch here."""

    def __init__(
        self, *, registry: Registry, lines: Lines, pools: tuple[str, ...], max_waiting: int
    ) -> None:
        self._registry = registry
        self._lines = lines
        self._max_waiting = max_waiting
        self._setbacks = {pool: SetbackCount(registry, pool) for pool in pools}
        self._watchers: set[Watcher] = set()
        self._latest: Look | None = None
        self._somebody_came = asyncio.Event()
        self._is_leaving = False

    def watch(self) -> Watcher:
        """Begin to watch; close the watcher in the end."""
        watcher = Watcher(self)
        self._watchers.add(watcher)
        latest = self._latest
        if self._is_leaving:
            watcher.dismiss()
        elif latest is not None and time.monotonic() - latest.taken_s < LOOK_EVERY_S:
            watcher.tell(latest)
        self._somebody_came.set()
        return watcher

    def forget(self, watcher: Watcher) -> None:
        """Drop a watcher."""
        self._watchers.discard(watcher)

    def say_goodbye(self) -> None:
        """Dismiss all watchers, and whoever comes from now on."""
        self._is_leaving = True
        for watcher in self._watchers:
            watcher.dismiss()

    async def run(self) -> NoReturn:
        """Look again and again while anybody watches, for ever."""
        await repeat(self._step, name="operator_feed", every_s=LOOK_EVERY_S)

    async def _step(self) -> None:
        if not self._watchers:
            self._somebody_came.clear()
            await self._somebody_came.wait()
        self._latest = look = Look(await self.overview())
        for watcher in self._watchers:
            watcher.tell(look)

    async def overview(self) -> Overview:
        """Return all pools that can be read as they are now.

        Raises:
            StoreUnavailable: None can: Redis is out.
        """
        read: dict[str, PoolReading] = {}

        async def read_one(pool: str) -> None:
            read[pool] = await self._read(pool)

        try:
            await with_each(self._setbacks, read_one)
        except StoreUnavailable:
            if not read:
                raise
        readings = [read[pool] for pool in self._setbacks if pool in read]
        return {
            "at": max(reading.facts.at_ms for reading in readings) / 1000,
            "pools": [pool_sight(reading, self._max_waiting) for reading in readings],
        }

    async def _read(self, pool: str) -> PoolReading:
        snapshot = await self._registry.snapshot(pool)
        look, listing = self._registry.inspection.look, self._registry.listing
        facts = await look(pool, nodes=_shown(snapshot.nodes))
        ended = await listing.page(pool, ENDED, count=ENDED_SHOWN)
        names = dict.fromkeys(_latest_on_stage(facts.nodes))
        names.update((row.session.session_id, None) for row in ended.rows if row.session)
        if names:
            facts = replace(facts, sessions=(await look(pool, sessions=names)).sessions)
        line = await listing.page(pool, LINE, count=LINE_SHOWN)
        return PoolReading(
            snapshot=snapshot,
            facts=facts,
            line=[row.session for row in line.rows if row.session],
            forecast=(await self._lines.read(pool)).forecast,
            setbacks=await self._setbacks[pool].at(facts.at_ms),
        )


def _shown(nodes: Sequence[NodeRecord]) -> list[str]:
    """Return the names of the nodes that are shown, in order."""
    by_need = sorted(nodes, key=lambda node: (not _needs_attention(node), node.node_id))
    return sorted(node.node_id for node in by_need[:NODES_SHOWN])


def _needs_attention(node: NodeRecord) -> bool:
    is_well = node.state in (NodeState.IDLE, NodeState.BUSY) and node.media_ok
    is_trusted = node.judged is Judgement.OK and node.admin is Admin.OPEN
    return not (is_well and is_trusted) or node.quarantined > 0


def _latest_on_stage(nodes: Sequence[NodeFacts]) -> list[str]:
    """Return who came onto a stage last; epochs are drawn in that order."""
    members = [one for node in nodes for one in node.members if not one.quarantined]
    members.sort(key=lambda one: -one.epoch)
    return [one.session_id for one in members[:ON_STAGE_SHOWN]]
