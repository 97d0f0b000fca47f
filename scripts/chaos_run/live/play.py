"""How is one seed played in real rooms?

Everybody comes in and watches; when all have seen frames, one node is hurt; whoever it played for
must see frames of another worker, in the same room on the same connection. Then the node is well
again, and if it wakes as a ghost there is time to see it. At last all are sent home: registry and
rooms must be empty, and all nodes there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scripts.chaos_run import second_opinions
from scripts.chaos_run.live.crowd import Crowd
from scripts.chaos_run.live.fleet import LiveFleet
from scripts.chaos_run.live.plan import NODES, LivePlan
from scripts.chaos_run.live.takeovers import Takeover, ghosts, takeover
from scripts.chaos_run.schedule import POOL, Fault, Kind
from shared.events import Event
from shared.lifecycle import until_available
from shared.states import Reason
from tests.support.wait import scaled_s

_SETTLES_WITHIN_S = 30.0
_GHOST_S = 2.0
"""LiveKit's SDK joins anew within half a second of its waking."""
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveVerdict:
    """One sentence per finding; all empty: the seed held."""

    lost: list[str]
    """Sessions that didn't play on, or ended otherwise than their guests wanted."""
    ghosts: list[str]
    """Frames of an older worker after one of a newer."""
    leaked: list[str]
    other: list[str]
    """What guests weren't told, processes that ended unasked, lines that were overtaken."""

    @property
    def holds(self) -> bool:
        return not any(self.as_dict().values())

    def as_dict(self) -> dict[str, list[str]]:
        """Return all findings by kind."""
        return {
            "lost": self.lost,
            "ghosts": self.ghosts,
            "leaked": self.leaked,
            "other": self.other,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePlayed:
    """One seed, what happened in it, and what is to be said of it."""

    plan: LivePlan
    verdict: LiveVerdict
    takeovers: tuple[Takeover, ...]
    sessions: int
    frames: int
    events: tuple[Event, ...]
    seconds: float


async def play(fleet: LiveFleet, plan: LivePlan) -> LivePlayed:
    """Play one seed to its verdict."""
    began_s = time.monotonic()
    await fleet.serving()
    latest = await until_available(lambda: fleet.registry.trail.latest(POOL, 1))
    crowd = Crowd(fleet.addresses, plan.seed)
    try:
        await crowd.enter(plan.guests)
        await asyncio.sleep(plan.fault.at_s)
        hurt_at_ms = await _hurt(fleet, crowd, plan.fault)
        await asyncio.sleep(_GHOST_S)
        await crowd.go_home()
    finally:
        await crowd.aclose()
    leaked = await _leaked(fleet)
    since = f"({latest[-1].id}" if latest else "-"
    events = [event async for event in fleet.registry.trail.read(POOL, since=since)]
    changed = [
        takeover(one.session_id, one.frames, events, since_ms=hurt_at_ms) for one in crowd.watchers
    ]
    return LivePlayed(
        plan=plan,
        verdict=LiveVerdict(
            lost=[*crowd.lost, *_endings(crowd, events)],
            ghosts=[
                found for one in crowd.watchers for found in ghosts(one.session_id, one.frames)
            ],
            leaked=leaked,
            other=[*second_opinions.breaks(events), *_surprises(fleet)],
        ),
        takeovers=tuple(one for one in changed if one and one.old_node == plan.fault.target),
        sessions=len(crowd.watchers),
        frames=sum(len(one.frames) for one in crowd.watchers),
        events=tuple(events),
        seconds=round(time.monotonic() - began_s, 1),
    )


async def _hurt(fleet: LiveFleet, crowd: Crowd, fault: Fault) -> float:
    """Do the fault and undo it, wait until everybody sees a picture again; returns when it began.

    Who takes over doesn't wait for the hurt node's return, and isn't waited for before it: a node
    that wakes or comes back in the middle of the takeover is part of the trap.
    """
    member, played = fleet.members[fault.target], crowd.played_by(fault.target)
    at_ms = time.time_ns() / 1e6
    match fault.kind:
        case Kind.KILL:
            await member.kill()
        case Kind.TERM:
            await member.terminate()
        case Kind.FREEZE:
            member.freeze()
        case _:
            raise ValueError(f"{fault.kind} isn't among the faults of this run")
    await asyncio.sleep(fault.for_s)
    member.thaw()
    await member.start()
    await crowd.see_successors(played)
    return at_ms


def _endings(crowd: Crowd, events: Iterable[Event]) -> Iterator[str]:
    """Find sessions that didn't end once, as their guests wished."""
    ends: dict[str, list[str]] = {one.session_id: [] for one in crowd.watchers}
    for event in events:
        if event.what == "ended":
            ends.setdefault(event.session_id, []).append(event.why)
    for session_id, reasons in ends.items():
        if reasons != [Reason.CLIENT_STOP]:
            yield f"{session_id} ended {reasons}"


async def _leaked(fleet: LiveFleet) -> list[str]:
    """Wait until nothing is left of the seed; returns what is."""
    deadline_s = time.monotonic() + scaled_s(_SETTLES_WITHIN_S)
    while True:
        snapshot = await until_available(lambda: fleet.registry.snapshot(POOL))
        used = {one.node_id: one.used for one in snapshot.nodes}
        found = [f"{name} has {count} slots in use" for name, count in used.items() if count]
        found += [f"{count} sessions are still {state}" for state, count in snapshot.states.items()]
        found += [f"{name} doesn't come back" for name in NODES if name not in used]
        if not found or time.monotonic() > deadline_s:
            break
        await asyncio.sleep(_LOOK_EVERY_S)
    return [*found, *await second_opinions.differences(fleet.registry, fleet.rooms)]


def _surprises(fleet: LiveFleet) -> Iterator[str]:
    for one in fleet.take_surprises():
        yield f"{one.name} {one.what}: {one.tail[-3:]}"
