"""How is each fault of a plan done to the fleet?

Faults on one process wait for each other, and so do those on one network way or one clock; a
process, its network and its clock may be hurt at the same time. What was done is noted with both
clocks, for the figures and for judging what a lost tail excuses.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass

import redis

from scripts.chaos_run.append_only_file import Lost
from scripts.chaos_run.fleet import Fleet
from scripts.chaos_run.schedule import REDIS, Fault, Kind

_ON_PROCESSES = frozenset(
    (Kind.KILL, Kind.TERM, Kind.FREEZE, Kind.LOSE_TAIL, Kind.EMPTY, Kind.FORGET_SCRIPTS)
)


def _part(kind: Kind) -> str:
    """Return which part of its target a fault hurts, one at a time."""
    if kind is Kind.SKEW:
        return "clock"
    return "process" if kind in _ON_PROCESSES else "way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A fault as it really happened."""

    kind: Kind
    target: str
    began_at_s: float
    """Monotonic."""
    began_at_ms: int
    """Wall clock, as the audit trail has it."""
    ended_at_s: float
    ended_at_ms: int
    lost_s: float
    """How long before its beginning the first write was lost; 0: nothing was."""
    lost_bytes: int


class Faults:
    """Does one plan's faults."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._chance = random.Random(f"tail {seed}")  # noqa: S311 - it must repeat
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.done: list[Done] = []

    async def run(self, faults: tuple[Fault, ...]) -> None:
        """Do all of them at their times; returns when the last is over."""
        started_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                group.create_task(self._do_at(fault, started_s + fault.at_s))

    async def _do_at(self, fault: Fault, due_s: float) -> None:
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        async with self._locks[fault.target, _part(fault.kind)]:
            began_s, began_ms = time.monotonic(), _wall_ms()
            lost = await self._do(fault)
            self.done.append(
                Done(
                    kind=fault.kind,
                    target=fault.target,
                    began_at_s=began_s,
                    began_at_ms=began_ms,
                    ended_at_s=time.monotonic(),
                    ended_at_ms=_wall_ms(),
                    lost_s=began_s - lost.since_s if lost else fault.lost_s,
                    lost_bytes=lost.bytes if lost else 0,
                )
            )

    async def _do(self, fault: Fault) -> Lost | None:
        match fault.kind:
            case Kind.KILL | Kind.TERM | Kind.LOSE_TAIL:
                return await self._end_process(fault)
            case Kind.FREEZE:
                member = self._fleet.members[fault.target]
                member.freeze()
                await asyncio.sleep(fault.for_s)
                member.thaw()
            case Kind.SKEW:
                self._fleet.clocks[fault.target].set_s(fault.ahead_s)
                await asyncio.sleep(fault.for_s)
                self._fleet.clocks[fault.target].set_s(0.0)
            case Kind.EMPTY:
                await asyncio.to_thread(_empty, self._fleet.redis_url)
            case Kind.FORGET_SCRIPTS:
                await asyncio.to_thread(_forget_scripts, self._fleet.redis_url)
            case Kind.MEDIA_OUT:
                self._fleet.venue.fail()
                await asyncio.sleep(fault.for_s)
                self._fleet.venue.recover()
            case _:
                proxy = self._fleet.proxies[fault.target]
                proxy.begin(fault.kind)
                await asyncio.sleep(fault.for_s)
                proxy.heal()
        return None

    async def _end_process(self, fault: Fault) -> Lost | None:
        member, lost = self._fleet.members[fault.target], None
        if fault.kind is Kind.TERM:
            await member.terminate()
        else:
            await member.kill()
        if fault.kind is Kind.LOSE_TAIL:
            lost = self._fleet.append_only.lose(fault.lost_s, self._chance)
        await asyncio.sleep(fault.for_s)
        await member.start()
        if fault.target == REDIS:
            await member.ready(within_s=30.0)
        return lost


def _empty(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


def _forget_scripts(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.script_flush()
        for kind in ("normal", "pubsub"):
            client.execute_command("CLIENT", "KILL", "TYPE", kind)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
