"""Who follows which session here, and how do they hear of a change at once?

One hub serves all event streams of a replica. However many clients wait, Redis is asked the same:

- A session that changes is named on this replica's channel (`Registry.session_hints`): reading it
  on behalf of a follower leaves the replica's name in its record. It is read again at once,
  together with all others that are named meanwhile, at most a hundred per call.
- Each pool's line is read once a second (`Lines`) while anybody here waits in it: places come from
  there, and whoever left it without a hint is noticed.
- Hints may be lost, so every session is also read now and then, and all of them whenever the
  subscription is new. For those that wait this is their sign of life.

All reading is done by one task, one call after the other: what a follower sees is in the order in
which it was read. Followers keep only the latest sight; a slow client misses stages, never the end.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NoReturn

from control_plane.estimates import Estimate, is_off
from control_plane.lines import Lines, Reading
from control_plane.metrics import Metrics
from control_plane.session_news import Sight
from shared.errors import ReplicaStopping, StoreUnavailable
from shared.ids import pool_of
from shared.lifecycle import repeat
from shared.records import SessionRecord
from shared.states import SessionState
from shared.store import Registry

READ_AT_ONCE = 100
READ_AGAIN_S = 5.0
SIGN_OF_LIFE_S = 15.0
_FIRST_SIGHT_WITHIN_S = 1.5
_SUBSCRIBED_WITHIN_S = 0.5
_TICK_S = 0.25
_GATHER_S = 0.01
"""Hints that come within this time are answered by one call."""


class Follower:
    """One client's view of one session; made by `EventsHub.follow`."""

    def __init__(self, hub: EventsHub, session_id: str) -> None:
        self._hub = hub
        self.session_id = session_id
        self._latest: Sight | StoreUnavailable | None = None
        self._told = asyncio.Event()
        self.is_leaving = False
        """This replica is stopping: the client goes on elsewhere."""

    async def first(self) -> Sight:
        """Return the session as it is now.

        Raises:
            StoreUnavailable: Redis is out.
            ReplicaStopping: Nothing more will come from here.
        """
        try:
            async with asyncio.timeout(_FIRST_SIGHT_WITHIN_S):
                sight = await self.next()
        except TimeoutError:
            raise StoreUnavailable(why="no answer in time") from None
        if sight is None:
            raise ReplicaStopping
        return sight

    async def next(self) -> Sight | None:
        """Return the latest sight once there is a new one; None: this replica is stopping."""
        await self._told.wait()
        self._told.clear()
        if isinstance(self._latest, StoreUnavailable):
            raise self._latest
        return None if self.is_leaving else self._latest

    def tell(self, sight: Sight | StoreUnavailable) -> None:
        """Replace the sight."""
        self._latest = sight
        self._told.set()

    def dismiss(self) -> None:
        """Say that nothing more will come from here."""
        self.is_leaving = True
        self._told.set()

    def close(self) -> None:
        """Follow no longer; harmless when done twice."""
        self._hub.forget(self)


@dataclass(slots=True, kw_only=True)
class _Followed:
    """One session that somebody here follows. Touched by the event loop only."""

    pool: str
    followers: set[Follower] = field(default_factory=set)
    sight: Sight | None = None
    """None: not read yet."""
    asked_s: float = 0.0
    """When it was asked for last, monotonic."""
    estimate: tuple[Estimate | None, float] = (None, 0.0)
    """What was told last, and when."""

    @property
    def waits(self) -> bool:
        record = self.sight.record if self.sight else None
        return record is not None and record.state is SessionState.QUEUED


class EventsHub:
    """All followers of one replica."""

    def __init__(
        self,
        *,
        registry: Registry,
        lines: Lines,
        metrics: Metrics,
        pools: tuple[str, ...],
        queue_lease_s: float = 0.0,
    ) -> None:
        self._registry = registry
        self._lines = lines
        self._metrics = metrics
        self._pools = pools
        lease_s = queue_lease_s or SIGN_OF_LIFE_S * 3
        self._sign_of_life_s = min(SIGN_OF_LIFE_S, lease_s / 3)
        self._name = f"r{secrets.token_hex(4)}"
        self._followed: dict[str, _Followed] = {}
        self._named: set[str] = set()
        """To be read at once."""
        self._placed: dict[str, Reading] = {}
        """The readings from which places were told."""
        self._wake = asyncio.Event()
        self._subscribed = asyncio.Event()
        self._is_leaving = False

    def follow(self, session_id: str) -> Follower:
        """Begin to follow a session; close the follower in the end."""
        follower = Follower(self, session_id)
        followed = self._followed.get(session_id)
        if followed is None:
            followed = self._followed[session_id] = _Followed(pool=pool_of(session_id))
        followed.followers.add(follower)
        self._metrics.event_streams(+1)
        if self._is_leaving:
            follower.dismiss()
        self._read_soon((session_id,))
        return follower

    def forget(self, follower: Follower) -> None:
        """Drop a follower."""
        followed = self._followed.get(follower.session_id)
        if followed is None or follower not in followed.followers:
            return
        followed.followers.discard(follower)
        self._metrics.event_streams(-1)
        if not followed.followers:
            del self._followed[follower.session_id]
            self._named.discard(follower.session_id)

    def say_goodbye(self) -> None:
        """Dismiss all followers, and whoever comes from now on."""
        self._is_leaving = True
        for followed in self._followed.values():
            for follower in followed.followers:
                follower.dismiss()

    async def listen(self) -> None:
        """Note the sessions that are named on this replica's channel, for ever."""
        async for session_id in self._registry.session_hints(self._pools, self._name):
            if session_id is None:
                self._subscribed.set()
                self._read_soon(self._followed)
            elif session_id in self._followed:
                self._read_soon((session_id,))

    async def run(self) -> NoReturn:
        """Read what must be read and tell it, for ever."""
        await repeat(self._step, name="events_hub", every_s=_GATHER_S, longest_s=1.0)

    def _read_soon(self, session_ids: Iterable[str]) -> None:
        self._named.update(session_ids)
        self._wake.set()

    async def _step(self) -> None:
        await self._until_something_is_due()
        trouble = await self._follow_lines()
        by_pool: dict[str, list[str]] = {}
        for sid in self._due():
            by_pool.setdefault(pool_of(sid), []).append(sid)
        for due in by_pool.values():
            trouble = await self._read_all(due) or trouble
        if trouble is not None:
            raise trouble

    async def _read_all(self, session_ids: list[str]) -> StoreUnavailable | None:
        """Read all of one pool; returns why that wasn't possible, which concerns no other pool."""
        left = iter(session_ids)
        while batch := tuple(islice(left, READ_AT_ONCE)):
            try:
                await self._read(batch)
            except StoreUnavailable as unavailable:
                self._named.update(left)
                return unavailable
        return None

    async def _until_something_is_due(self) -> None:
        if not self._followed:
            await self._wake.wait()
        if not self._subscribed.is_set():  # what is read before could change unnoticed
            await _within(_SUBSCRIBED_WITHIN_S, self._subscribed)
        if not self._named:
            line_s = min(map(self._lines.due_in_s, self._placed), default=_TICK_S)
            await _within(min(line_s, _TICK_S), self._wake)
        self._wake.clear()

    def _due(self) -> list[str]:
        """Take what was named, and what wasn't read for long."""
        now_s = time.monotonic()
        due = [sid for sid in self._named if sid in self._followed]
        self._named.clear()
        for sid, followed in self._followed.items():
            every_s = self._sign_of_life_s if followed.waits else READ_AGAIN_S
            if now_s - followed.asked_s >= every_s:
                due.append(sid)
        return list(dict.fromkeys(due))

    async def _read(self, session_ids: tuple[str, ...]) -> None:
        now_s = time.monotonic()
        try:
            found = await self._registry.touch(session_ids, replica=self._name)
        except StoreUnavailable as unavailable:
            self._named.update(session_ids)
            for sid in session_ids:
                self._refuse_newcomers(sid, unavailable)
            raise
        for sid in session_ids:
            followed = self._followed.get(sid)
            if followed is not None:
                followed.asked_s = now_s
                self._tell(followed, await self._sight(found.get(sid)), now_s)

    def _refuse_newcomers(self, session_id: str, why: StoreUnavailable) -> None:
        """Those who saw something already keep it until the outage is over."""
        followed = self._followed.get(session_id)
        if followed is not None and followed.sight is None:
            for follower in followed.followers:
                follower.tell(why)

    async def _sight(self, record: SessionRecord | None) -> Sight:
        if record is None:
            return Sight(record=None)
        return Sight(record=record, estimate=await self._lines.estimate(record))

    def _tell(self, followed: _Followed, sight: Sight, now_s: float) -> None:
        followed.sight = sight
        followed.estimate = (sight.estimate, now_s)
        for follower in followed.followers:
            follower.tell(sight)

    async def _follow_lines(self) -> StoreUnavailable | None:
        """Tell places from each line that somebody here waits in; returns why not, of one."""
        trouble: StoreUnavailable | None = None
        pools = {followed.pool for followed in self._followed.values() if followed.waits}
        for pool in self._placed.keys() - pools:
            del self._placed[pool]  # nobody waits there now, so nothing becomes due
        for pool in pools:
            try:
                reading = await self._lines.read(pool)
            except StoreUnavailable as unavailable:
                trouble = unavailable
                continue
            if self._placed.get(pool) is reading:
                continue
            self._placed[pool] = reading
            for sid, followed in self._followed.items():
                if followed.waits and followed.pool == pool:
                    self._place(sid, followed, reading)
        return trouble

    def _place(self, session_id: str, followed: _Followed, reading: Reading) -> None:
        record = followed.sight.record if followed.sight else None
        if record is None or reading.asked_s <= followed.asked_s:
            return  # what is known is fresher
        position = reading.positions.get(session_id)
        if position is None:
            if reading.is_whole:  # it left the line, and no hint has told
                self._named.add(session_id)
            return
        estimate, (told, told_s) = reading.forecast.of(position), followed.estimate
        if position != record.position or is_off(told, estimate, reading.asked_s - told_s):
            seen = Sight(record=replace(record, position=position), estimate=estimate)
            self._tell(followed, seen, reading.asked_s)


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for *event*, but not longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
