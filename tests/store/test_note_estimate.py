"""note_estimate: what was promised, and how far off it turns out to be."""

from __future__ import annotations

import pytest

from shared.durations import histogram
from shared.store import replies
from tests.support.scenario import World, sid

PROMISE: dict[str, str | int | bytes] = {
    "session_id": sid("a"),
    "middle_ms": 60_000,
    "low_ms": 30_000,
    "high_ms": 90_000,
}


def totals(world: World) -> dict[str, int]:
    """The totals as a snapshot tells them."""
    _, (*_, flat) = world.run("snapshot", waiting_shown=0)
    return dict(replies.pairs(flat))


def test_the_first_promise_stays(world: World) -> None:
    """What the client was told when it came is what it will compare with."""
    world.open("a")
    assert world.call("note_estimate", **PROMISE)[0] == "noted"
    assert world.changes == {"s:a promised": "60000 30000 90000"}
    again = PROMISE | {"middle_ms": 1}
    assert world.call("note_estimate", **again)[0] == "already"
    assert world.changes == {}


def test_nothing_is_promised_to_who_doesn_t_wait_for_the_first_time(world: World) -> None:
    """Served, unknown, or back in line."""
    assert world.call("note_estimate", **PROMISE)[0] == "already"
    world.add_node()
    world.bring("a", "running")
    assert world.call("note_estimate", **PROMISE)[0] == "already"
    world.run("give_back", **world.giving("a", "node_shutdown"))
    assert world.call("note_estimate", **PROMISE)[0] == "already"
    assert world.changes == {}


@pytest.mark.parametrize(
    ("waited_s", "side", "off_s", "outcome"),
    [
        (60, "later", 0, "within"),
        (45, "sooner", 15, "within"),
        (29, "sooner", 31, "sooner"),
        (90, "later", 30, "within"),
        (300, "later", 240, "later"),
    ],
)
def test_the_first_admission_tells_how_far_off_it_was(
    world: World, waited_s: int, side: str, off_s: int, outcome: str
) -> None:
    """By how much, on which side, and whether the wait was within the range."""
    world.open("a", d_queued=0)
    world.run("note_estimate", **PROMISE)
    world.pass_time(waited_s)
    world.add_node()
    told = totals(world)
    error = histogram(told, f"estimate_{side}")
    assert (error.count, error.sum_s) == (1, off_s)
    assert {name for name in told if name.startswith("estimated_")} == {f"estimated_{outcome}"}


def test_only_the_first_wait_is_compared(world: World) -> None:
    """A wait after a return was never promised."""
    world.open("a", d_queued=0)
    world.run("note_estimate", **PROMISE)
    world.add_node("n1")
    world.accept("a")
    world.run("give_back", **world.giving("a", "node_shutdown"))
    world.beat("n1", capacity=1, residents="[]")
    told = totals(world)
    assert (told["assigned"], histogram(told, "estimate_sooner").count) == (2, 1)
