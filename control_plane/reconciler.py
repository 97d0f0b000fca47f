"""Which rooms and workers are left over?

Whoever ends a session deletes its room, and whoever returns one to the line puts its worker out;
but a process may die in between, and a worker that was frozen comes back with a token that is still
good. So each replica compares rooms and records now and then, without a leader: deleting twice is
harmless. Only rooms of our own deployment are ever touched (R3), and none in a grace, for then the
registry is still learning what is played. LiveKit tells of most of this at once (`webhooks`); this
is for what it didn't tell, or told in vain.

A room without a record proves little: the registry may have lost it. It goes only if two looks ten
minutes apart find it unknown and empty.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import structlog

from control_plane.room_chores import RoomChores
from shared.facts import PoolFacts, RoomFacts, SessionFacts
from shared.ids import pool_of
from shared.lifecycle import repeat, with_each
from shared.rooms.admin import RoomAdmin
from shared.states import SessionState
from shared.store import Registry

LOOK_EVERY_S = 30.0
UNKNOWN_FOR_S = 600.0
SETTLES_MS = 15_000
"""Whoever ended a session deletes its room first."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A room that shall go, or one that is to be looked into."""

    session_id: str
    why: str
    """unknown, ended: the room goes. waits: a worker is there although nobody plays, people aren't
    counted right, or may not have been told that the session waits again. crowded: more than one
    publishes."""

    @property
    def is_room(self) -> bool:
        return self.why in ("unknown", "ended")


class Unknown:
    """Since when is a room known to have no record? One replica's memory; losing it is fine."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def note(self, session_ids: Iterable[str], now_s: float) -> None:
        """These, and no others, have no record now."""
        self._since_s = {name: self._since_s.get(name, now_s) for name in session_ids}

    def for_s(self, session_id: str, now_s: float) -> float:
        """For how many seconds by now."""
        return now_s - self._since_s.get(session_id, now_s)


def leftovers(
    facts: PoolFacts, rooms: Iterable[RoomFacts], unknown: Unknown, now_s: float
) -> Iterator[Leftover]:
    """Compare the rooms of one pool with its records. Pure but for *unknown*, which is brought up
    to date.
    """
    if int(float(facts.counters.get("grace", 0))) > facts.registry_ms:
        return
    rooms = tuple(rooms)
    known = {one.session_id: one for one in facts.sessions if one.state is not None}
    unknown.note((room.session_id for room in rooms if room.session_id not in known), now_s)
    for room in rooms:
        name, session = room.session_id, known.get(room.session_id)
        if session is None:
            if not room.participants and unknown.for_s(name, now_s) >= UNKNOWN_FOR_S:
                yield Leftover(session_id=name, why="unknown")
        elif not session.is_live:
            if facts.at_ms - (session.number("ended") or 0) > SETTLES_MS:
                yield Leftover(session_id=name, why="ended")
        elif _is_without_a_worker(session):
            counted = session.number("participants") or 0
            if room.publishers or room.participants != counted or _may_not_know(room, session):
                yield Leftover(session_id=name, why="waits")
        elif room.publishers > 1:
            yield Leftover(session_id=name, why="crowded")


def _is_without_a_worker(session: SessionFacts) -> bool:
    """Nobody is in the room for it, so nobody there puts zombies out (R1)."""
    return session.state in (SessionState.QUEUED, SessionState.ASSIGNED)


def _may_not_know(room: RoomFacts, session: SessionFacts) -> bool:
    """Whether somebody is there who may not have been told that the session waits again."""
    return room.participants > 0 and "back" in session.record


class Reconciler:
    """One replica's share of the comparing."""

    def __init__(
        self,
        *,
        registry: Registry,
        rooms: RoomAdmin,
        chores: RoomChores,
        pools: tuple[str, ...],
    ) -> None:
        self._registry = registry
        self._rooms = rooms
        self._chores = chores
        self._unknown = {pool: Unknown() for pool in pools}

    async def run(self) -> NoReturn:
        """Look for ever; replicas that started together drift apart by the random pause."""
        await repeat(self._pause_and_look, name="reconciler", every_s=LOOK_EVERY_S / 2)

    async def _pause_and_look(self) -> None:
        await asyncio.sleep(random.uniform(0, LOOK_EVERY_S))  # noqa: S311 - spreads load, no secret
        await self.look(time.monotonic())

    async def look(self, now_s: float) -> None:
        """Compare all pools once; one that can't be read keeps no other from it.

        Raises:
            RoomsUnavailable: LiveKit doesn't answer.
            StoreUnavailable: Redis doesn't, of one pool at least.
        """
        listed = await self._rooms.rooms()  # first: a room that is younger than its record is none

        async def look_into(pool: str) -> None:
            rooms = [room for room in listed if pool_of(room.session_id) == pool]
            names = (room.session_id for room in rooms)
            facts = await self._registry.inspection.look(pool, sessions=names)
            for leftover in leftovers(facts, rooms, self._unknown[pool], now_s):
                self._clear(leftover)

        await with_each(self._unknown, look_into)

    def _clear(self, leftover: Leftover) -> None:
        if leftover.is_room:
            _log.info("room_leftover", session=leftover.session_id, why=leftover.why)
            self._chores.delete_room(leftover.session_id)
        else:
            self._chores.look_into_room(leftover.session_id)
