"""How is one seed played, and when is it over?

Guests come and faults happen as planned; then everything is healed, and all must come to rest: each
session ended, each slot free, each node serving. What was seen goes to the verdict. Before the next
seed the records of the ended sessions are let expire, as an hour would do; copies of calls that are
still on their way have arrived by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import redis

from scripts.chaos_run import commands, second_opinions, stories_told, verdict
from scripts.chaos_run.faults import Done, Faults
from scripts.chaos_run.figures import Figures, figures
from scripts.chaos_run.fleet import SLOTS, Fleet
from scripts.chaos_run.guests import Client, Visit
from scripts.chaos_run.schedule import NODES, POOL, Plan
from scripts.chaos_run.venue import Frame
from scripts.chaos_run.verdict import Verdict
from shared.errors import StoreUnavailable
from shared.events import Event
from shared.lifecycle import until_available
from shared.states import SessionState
from shared.store import Registry
from shared.store.keys import prefix
from tests.support.key_dump import Key, read_all
from tests.support.wait import scaled_s

SETTLES_WITHIN_S = 90.0
"""Struck nodes rest for up to half a minute, and then the line has to be served."""
_QUIET_S = 2.5
"""Longer than any call is on its way, and than two beats."""
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One seed, what happened in it, and what is to be said of it."""

    plan: Plan
    verdict: Verdict
    figures: Figures
    done: tuple[Done, ...]
    visits: tuple[Visit, ...]
    events: tuple[Event, ...]
    sessions: int
    frames: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is there to be seen when all is at rest."""

    visits: list[Visit]
    events: list[Event]
    states: dict[str, SessionState | None]
    attempts: dict[str, int]
    """Of those that have a record: 1 + how often it says that they went back to the line."""
    used: dict[str, int]
    frames: list[Frame]
    differences: list[str]
    """What the audit finds."""


async def play(fleet: Fleet, plan: Plan, *, with_commands: bool = False) -> Played:
    """Play one seed to its verdict.

    Args:
        fleet: On what.
        plan: What happens.
        with_commands: Whether an operator's commands are given at the end, too, as processes.
    """
    started_s = time.monotonic()
    registry = Registry.connect(fleet.redis_url)
    client = Client(fleet.addresses, fleet.venue, plan.seed)
    coming: list[asyncio.Task[None]] = []
    try:
        latest = await until_available(lambda: registry.trail.latest(POOL, 1))
        visits = [Visit(guest=guest) for guest in plan.guests]
        coming += [asyncio.create_task(client.visit(visit, started_s)) for visit in visits]
        faults = Faults(fleet, plan.seed)
        await faults.run(plan.faults)
        away = await fleet.heal()
        await _settle(registry, fleet, coming)
        since = f"({latest[-1].id}" if latest else "-"
        seen = await _look(registry, fleet, visits, since)
        untrue = [*_untrue(seen, faults.done)]
        if with_commands:
            untrue += await commands.lies(fleet.redis_url, seen.events, fleet.folder)
    finally:
        await _stop(coming)
        await client.aclose()
        await registry.aclose()
    found = await _judge(fleet, seen, faults.done)
    await fleet.append_only.shrink(fleet.redis_url)
    found.untrue.extend(untrue)
    found.surprises.extend(f"{name} doesn't come back" for name in away)
    found.surprises.extend(_surprises(fleet, plan, visits))
    if not _has_poison(plan):  # it kills nodes that the plan doesn't name
        found.surprises.extend(verdict.moved_by_clocks(seen.events, faults.done))
    return Played(
        plan=plan,
        verdict=found,
        figures=_figures(plan, seen, faults.done),
        done=tuple(faults.done),
        visits=tuple(visits),
        events=tuple(seen.events),
        sessions=len({event.session_id for event in seen.events if event.session_id}),
        frames=len(seen.frames),
        seconds=round(time.monotonic() - started_s, 1),
    )


def _figures(plan: Plan, seen: _Seen, done: list[Done]) -> Figures:
    found = figures(seen.events, done)
    if _has_poison(plan):
        found.unprovoked.clear()
    return found


def _has_poison(plan: Plan) -> bool:
    return any(guest.is_poison for guest in plan.guests)


async def _settle(registry: Registry, fleet: Fleet, coming: list[asyncio.Task[None]]) -> None:
    """Return when all is at rest for a while, or when it should be and isn't."""
    deadline_s = time.monotonic() + scaled_s(SETTLES_WITHIN_S)
    await asyncio.wait(coming, timeout=scaled_s(SETTLES_WITHIN_S))
    await _stop(coming)
    quiet_since_s: float | None = None
    while time.monotonic() < deadline_s:
        now_s = time.monotonic()
        if fleet.copies_on_their_way or not await _is_quiet(registry):
            quiet_since_s = None
        elif quiet_since_s is None:
            quiet_since_s = now_s
        elif now_s - quiet_since_s > _QUIET_S:
            return
        await asyncio.sleep(_LOOK_EVERY_S)


async def _stop(coming: list[asyncio.Task[None]]) -> None:
    for task in coming:
        task.cancel()
    await asyncio.gather(*coming, return_exceptions=True)


async def _is_quiet(registry: Registry) -> bool:
    try:
        snapshot = await registry.snapshot(POOL)
    except StoreUnavailable:
        return False
    used = sum(node.used for node in snapshot.nodes)
    return not snapshot.states and not used and len(snapshot.nodes) == len(NODES)


async def _look(registry: Registry, fleet: Fleet, visits: list[Visit], since: str) -> _Seen:
    """Look at everything; a busy machine may be late with an answer, so each is asked for again."""
    accepted = [session_id for visit in visits for session_id, _ in visit.accepted]
    look, snapshot = registry.inspection.look, registry.snapshot
    facts = await until_available(lambda: look(POOL, sessions=dict.fromkeys(accepted)))
    nodes = (await until_available(lambda: snapshot(POOL))).nodes
    return _Seen(
        visits=visits,
        events=await until_available(lambda: _read(registry, since)),
        states={one.session_id: one.state for one in facts.sessions},
        attempts={
            one.session_id: one.number("attempt") or 1 for one in facts.sessions if one.state
        },
        used={node.node_id: node.used for node in nodes},
        differences=await until_available(lambda: second_opinions.differences(registry)),
        frames=fleet.venue.take_frames(),
    )


async def _read(registry: Registry, since: str) -> list[Event]:
    return [event async for event in registry.trail.read(POOL, since=since)]


async def _judge(fleet: Fleet, seen: _Seen, done: list[Done]) -> Verdict:
    found = await asyncio.to_thread(_take_keys, fleet.redis_url)
    thawed = {name: fleet.members[name].thawed_at_s for name in NODES}
    return Verdict(
        lost=list(verdict.lost(seen.visits, seen.states, done)),
        doubled=[
            *verdict.doubled(seen.frames, thawed, done),
            *verdict.unowned(seen.frames, seen.events, done, thawed),
        ],
        overtaken=[*verdict.overtaken(seen.events), *second_opinions.breaks(seen.events)],
        leaked=[*verdict.leaked(found, prefix(POOL), seen.used), *seen.differences],
        keys=list(verdict.strange_keys(found)),
        crowded=list(verdict.crowded(seen.frames, SLOTS)),
        unjust=list(verdict.unjust(seen.visits, seen.events)),
        untrue=[],
        surprises=[],
    )


def _untrue(seen: _Seen, done: list[Done]) -> Iterator[str]:
    known = stories_told.Known(
        visits=seen.visits, frames=seen.frames, done=done, attempts=seen.attempts
    )
    return stories_told.lies(known, seen.events)


def _surprises(fleet: Fleet, plan: Plan, visits: list[Visit]) -> Iterator[str]:
    has_poison = _has_poison(plan)
    for one in fleet.take_surprises():
        if not (one.killed and has_poison):
            yield f"{one.name} {one.what}: {one.tail[-3:]}"
    for visit in visits:
        for fault in visit.faults:
            yield f"{visit.guest.name}: {fault}"


def _take_keys(url: str) -> list[Key]:
    """Read all keys, then let those that would expire do it now."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        found = read_all(client)
        for key in found:
            if key.ttl_ms >= 0:
                client.pexpire(key.name, 1)
    return found
