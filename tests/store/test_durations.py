"""Durations in the totals: how long the line made people wait, whichever replica tells it."""

from __future__ import annotations

import pytest

from shared.durations import BOUNDS, histogram
from shared.store import replies
from tests.support.scenario import World


def totals(world: World) -> dict[str, int]:
    """The totals as a snapshot tells them."""
    _, (*_, flat) = world.run("snapshot", waiting_shown=0)
    return dict(replies.pairs(flat))


@pytest.mark.parametrize(
    ("waited_s", "bucket"),
    [(0, "0.1"), (0.1, "0.1"), (0.101, "1"), (59.999, "60"), (60, "60"), (7200, "inf")],
)
def test_a_wait_is_counted_once_in_the_bucket_that_holds_it(
    world: World, waited_s: float, bucket: str
) -> None:
    """The bound itself belongs to its bucket."""
    world.open("a", d_queued=0)
    world.pass_time(waited_s)
    world.add_node()
    told = {name: count for name, count in totals(world).items() if name.startswith("wait")}
    assert told == {f"wait_le_{bucket}": 1, "wait_ms": round(waited_s * 1000)}


def test_the_wait_after_a_return_is_counted_apart(world: World) -> None:
    """It starts with the return, and the first wait stays what it was."""
    world.open("a", d_queued=0)
    world.pass_time(4)
    world.add_node("n1")
    world.accept("a")
    world.run("give_back", **world.giving("a", "node_shutdown"))
    world.pass_time(15)
    world.beat("n1", capacity=1, residents="[]")
    assert world.state("a") == "assigned n1"
    told = totals(world)
    waited, again = histogram(told, "wait"), histogram(told, "readmission")
    assert (waited.count, waited.sum_s) == (1, 4)
    assert (again.count, again.sum_s) == (1, 15)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_stepped_clock_is_no_wait(world: World, hours: int) -> None:
    """Durations are of registry time: at most two seconds of the step count, never less than 0."""
    world.open("a", d_queued=0)
    world.step_clock(hours * 3600)
    world.add_node()
    assert totals(world)["wait_ms"] == (2000 if hours > 0 else 0)


def test_a_histogram_adds_up_its_buckets() -> None:
    """Each bound counts all that didn't exceed it; the last one counts everything."""
    counted = histogram(
        {"wait_le_0.1": 3, "wait_le_60": 2, "wait_le_inf": 1, "wait_ms": 9500}, "wait"
    )
    by_bound = dict(counted.buckets)
    assert len(by_bound) == len(BOUNDS) + 1
    assert (by_bound["0.1"], by_bound["30"], by_bound["60"], by_bound["+Inf"]) == (3, 3, 5, 6)
    assert (counted.count, counted.sum_s) == (6, 9.5)
    assert histogram({}, "wait").count == 0
