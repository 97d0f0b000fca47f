"""Does a seed always name the same plan, and do the seeds cover what they should?"""

from __future__ import annotations

import json

from scripts.chaos_run.plan import plan
from scripts.chaos_run.schedule import (
    ARRIVALS_S,
    NODE_TTL_S,
    NODES,
    REDIS,
    REPLICAS,
    VENUE,
    Kind,
)
from scripts.chaos_run.traps import TRAPS

SEEDS = range(4 * len(TRAPS))


def test_a_seed_always_gives_the_same_plan() -> None:
    """That's what makes a failure repeatable."""
    for seed in SEEDS:
        assert plan(seed) == plan(seed)
    assert len({json.dumps(plan(seed).as_dict()) for seed in SEEDS}) == len(SEEDS)


def test_all_traps_come_in_turn() -> None:
    """As many seeds as traps play each of them once."""
    assert {plan(seed).trap for seed in range(100, 100 + len(TRAPS))} == set(TRAPS)


def test_every_kind_of_fault_is_planned_on_what_it_can_hurt() -> None:
    """Nothing is listed that never happens, and no target is unknown."""
    faults = [fault for seed in SEEDS for fault in plan(seed).faults]
    assert {fault.kind for fault in faults} == set(Kind)
    assert {fault.target for fault in faults} == {*NODES, *REPLICAS, REDIS, VENUE}
    for fault in faults:
        assert (fault.kind is Kind.MEDIA_OUT) == (fault.target == VENUE)
        assert (fault.kind in (Kind.LOSE_TAIL, Kind.EMPTY)) == (fault.lost_s > 0)
        most_s = (9 if fault.kind is Kind.MEDIA_OUT else 4) * NODE_TTL_S
        assert (fault.at_s >= 0, fault.for_s <= most_s) == (True, True)


def test_about_a_third_of_the_guests_never_come() -> None:
    """No-shows are as many as were asked for; everybody comes within the time for it."""
    guests = [guest for seed in SEEDS for guest in plan(seed).guests]
    absent = sum(not guest.shows_up for guest in guests) / len(guests)
    assert 0.25 < absent < 0.35
    assert all(0 <= guest.at_s <= ARRIVALS_S for guest in guests)
    assert {guest.name for guest in guests if guest.is_poison} == {
        f"poison-{seed}" for seed in SEEDS if plan(seed).trap == "poison_session"
    }
