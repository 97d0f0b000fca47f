"""In which order are the replicas restarted, and when is it the next one's turn?

One after the other, each for as long as it takes until enough calls were made without it, and then
with it again. At last everybody who is there finishes his visit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from scripts.chaos_run.rolling.fleet import RollingFleet
from scripts.chaos_run.rolling.report import Rolled, Step
from scripts.chaos_run.rolling.visitors import Tally, Visitors
from scripts.chaos_run.schedule import POOL, REPLICAS
from shared.store import Registry
from tests.support.wait import scaled_s, wait_until

_CALLS = 40
"""So many are made while a replica is away, and again once it is back."""
_GOES_ON_WITHIN_S = 120.0


async def run(wanted: argparse.Namespace, folder: Path, rolled: list[Rolled]) -> None:
    """Restart all replicas; what came of it is in *rolled*."""
    fleet = RollingFleet(folder, flavour=wanted.redis, proxy=wanted.proxy, notice_s=wanted.notice)
    visitors: Visitors | None = None
    try:
        await fleet.open()
        visitors = Visitors(fleet.front.address, fleet.venue, wanted.visitors)
        await _until(lambda: visitors.tally.sessions >= wanted.visitors, "all visitors are in")
        steps = [
            await _restart(name, fleet, visitors, by=wanted.by)
            for _ in range(wanted.rounds)
            for name in REPLICAS
        ]
        before = visitors.tally.copy()
        await visitors.stop()
        await _compare(fleet.redis_url, visitors)
        steps.append(Step(name="none", tally=visitors.tally.since(before)))
        surprises = tuple(f"{one.name} {one.what}: {one.tail}" for one in fleet.take_surprises())
        rolled.append(Rolled(steps=tuple(steps), whole=visitors.tally, surprises=surprises))
    finally:
        if visitors is not None:
            await visitors.aclose()
        await fleet.aclose()


async def _restart(name: str, fleet: RollingFleet, visitors: Visitors, *, by: str) -> Step:
    """End one replica and start it again, with enough calls in each part."""
    before, member = visitors.tally.copy(), fleet.members[name]
    began_s = time.monotonic()
    await (member.terminate() if by == "term" else member.kill())
    ended_in_s = time.monotonic() - began_s
    await _more_calls(visitors.tally)
    if not await fleet.restart(name):
        raise RuntimeError(f"{name} doesn't come back; its log is in {fleet.folder}")
    await _more_calls(visitors.tally)
    fleet.venue.take_frames()
    return Step(name=name, tally=visitors.tally.since(before), ended_in_s=ended_in_s)


async def _more_calls(tally: Tally) -> None:
    wanted = tally.requests + _CALLS
    await _until(lambda: tally.requests >= wanted, f"{_CALLS} more calls are made")


async def _until(condition: Callable[[], bool], what: str) -> None:
    await wait_until(condition, what, scaled_s(_GOES_ON_WITHIN_S))


async def _compare(redis_url: str, visitors: Visitors) -> None:
    """Find the sessions whose last change never came: by the trail, which has all of them."""
    registry = Registry.connect(redis_url)
    last: dict[str, int] = {}
    try:
        async for event in registry.trail.read(POOL):
            if event.session_id and event.version is not None:
                last[event.session_id] = event.version
    finally:
        await registry.aclose()
    for session_id, told in visitors.told.items():
        if told != last[session_id]:
            visitors.tally.untold.append(
                f"{session_id}: told up to {told}, it came to {last[session_id]}"
            )
