"""What happens to which node in one seed of the run with real rooms?

Pure: the same seed gives the same plan. One fault per seed, each kind in turn, so that a takeover's
time has one cause.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from scripts.chaos_run.schedule import Fault, Kind

NODES = ("node-1", "node-2")
REPLICAS = ("replica-1", "replica-2")
GUESTS = 4
NODE_TTL_S = 3.0
"""Short, so that a seed takes seconds; ``--ttl`` sets another."""

_TURNS = ("kill", "freeze", "term", "kill", "long_freeze", "kill_and_back")
_SFU_TIMEOUT_S = 22.0
"""Beyond it LiveKit has given the frozen worker up, and its SDK joins anew when it wakes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePlan:
    """One seed."""

    seed: int
    turn: str
    fault: Fault
    guests: tuple[str, ...]


def plan(seed: int, *, guests: int = GUESTS, ttl_s: float = NODE_TTL_S) -> LivePlan:
    """Return what happens in *seed*."""
    chance = random.Random(f"greenroom live chaos {seed}")  # noqa: S311 - it must repeat
    turn = _TURNS[seed % len(_TURNS)]
    return LivePlan(
        seed=seed,
        turn=turn,
        fault=_fault(turn, chance, ttl_s),
        guests=tuple(f"guest-{seed}-{number}" for number in range(guests)),
    )


def _fault(turn: str, chance: random.Random, ttl_s: float) -> Fault:
    kind, least_s, most_s = {
        "kill": (Kind.KILL, 0.5, ttl_s + 2.0),
        "kill_and_back": (Kind.KILL, 0.0, 0.0),
        "freeze": (Kind.FREEZE, ttl_s + 2.0, ttl_s + 4.0),
        "long_freeze": (Kind.FREEZE, _SFU_TIMEOUT_S, _SFU_TIMEOUT_S + 4.0),
        "term": (Kind.TERM, 0.0, 1.0),
    }[turn]
    return Fault(
        at_s=round(chance.uniform(0.2, 1.2), 2),
        kind=kind,
        target=chance.choice(NODES),
        for_s=round(chance.uniform(least_s, most_s), 2),
    )
