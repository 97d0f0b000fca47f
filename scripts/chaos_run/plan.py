"""What happens in one seed?

Pure: the same seed gives the same plan on any machine, so a seed that failed can be played again.
Only the plan repeats, not the run: what a fault meets depends on the machine.
"""

from __future__ import annotations

import random

from scripts.chaos_run.schedule import ARRIVALS_S, GUESTS, NO_SHOWS, PLAYS_S, Guest, Plan
from scripts.chaos_run.traps import TRAPS, any_fault


def plan(seed: int, *, guests: int = GUESTS) -> Plan:
    """Return what happens in *seed*."""
    chance = random.Random(f"greenroom chaos {seed}")  # noqa: S311 - it must repeat
    names = tuple(TRAPS)
    trap = names[seed % len(names)]
    faults = [*TRAPS[trap](chance), *(any_fault(chance) for _ in range(chance.randint(1, 4)))]
    coming = [_guest(chance, seed, number) for number in range(guests)]
    if trap == "poison_session":
        coming.append(_poison(seed))
    return Plan(
        seed=seed,
        trap=trap,
        guests=tuple(sorted(coming, key=lambda guest: guest.at_s)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_s)),
    )


def _guest(chance: random.Random, seed: int, number: int) -> Guest:
    mood = chance.random()
    after_s = round(chance.uniform(0.2, 4.0), 2)
    return Guest(
        name=f"guest-{seed}-{number}",
        at_s=round(chance.uniform(0.0, ARRIVALS_S), 2),
        plays_s=round(chance.uniform(*chance.choice(PLAYS_S)), 2),
        shows_up=chance.random() >= NO_SHOWS,
        follows=chance.random() < 0.4,
        asks_twice=chance.random() < 0.15,
        deletes_after_s=after_s if mood < 0.15 else None,
        vanishes_after_s=after_s if 0.15 <= mood < 0.25 else None,
        reloads_after_s=after_s if 0.25 <= mood < 0.35 else None,
    )


def _poison(seed: int) -> Guest:
    return Guest(
        name=f"poison-{seed}", at_s=1.0, plays_s=1.0, shows_up=True, is_poison=True
    )  # fmt: skip
