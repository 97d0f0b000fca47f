"""Estimates: unknown rather than wrong, a range, and nobody is told less than somebody ahead."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from control_plane.estimates import Estimate, Forecast
from shared.waiting import Line


def line(
    *, held_s: tuple[float, ...] = (0.0,), holds_s: tuple[float, ...] = (60.0,) * 3, **known: int
) -> Line:
    """A line whose slots are all taken, unless the test says otherwise."""
    counts = {"queued": 5, "slots": len(held_s), "taken": len(held_s)} | known
    return Line(
        pool="default",
        at_s=0,
        waiting=(),
        tickets=(),
        queued=counts["queued"],
        slots=counts["slots"],
        taken=counts["taken"],
        held_s=held_s,
        holds_s=holds_s,
    )


def middle(forecast: Forecast, position: int) -> float:
    """The estimate of a place that must have one."""
    estimate = forecast.of(position)
    assert estimate is not None
    return estimate.middle_s


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_with_too_few_sessions_to_learn_from_nothing_is_said(samples: int) -> None:
    """A guess of ours would look like knowledge."""
    forecast = Forecast(line(holds_s=(60.0,) * samples))
    assert forecast.of(1) is None
    assert forecast.usual_hold_s is None


def test_with_no_slot_nothing_is_said() -> None:
    """All nodes are away or loading: unknown, not 0."""
    assert Forecast(line(held_s=(), slots=0)).of(1) is None


def test_what_is_left_is_the_usual_time_less_what_has_passed() -> None:
    """A task of 15 s, five of them gone: about 10 s."""
    forecast = Forecast(line(held_s=(5.0,), holds_s=(15.0,) * 3))
    assert forecast.of(1) == Estimate(middle_s=10, low_s=10, high_s=10)


def test_a_session_that_overruns_is_expected_to_end_soon_but_never_now() -> None:
    """The estimate is never 0 or negative."""
    estimate = Forecast(line(held_s=(500.0,), holds_s=(100.0,) * 3)).of(1)
    assert estimate is not None
    assert 1 <= estimate.low_s <= estimate.middle_s <= estimate.high_s <= 10


def test_two_slots_take_turns() -> None:
    """10 s and 15 s are left, each takes 20 s: the three who wait get on after 10, 15 and 30."""
    forecast = Forecast(line(held_s=(10.0, 5.0), holds_s=(20.0,) * 3))
    assert [middle(forecast, place) for place in (1, 2, 3)] == [10, 15, 30]


def test_the_estimate_falls_as_time_passes() -> None:
    """What is left of a running session grows shorter."""
    holds_s = (40.0, 50.0, 60.0)
    left = [middle(Forecast(line(held_s=(s,), holds_s=holds_s)), 1) for s in (0.0, 10.0, 30.0)]
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 3


def test_nobody_is_told_less_than_somebody_ahead() -> None:
    """Also where the played places end and the pace takes over."""
    rng = random.Random(4)
    holds_s = tuple(rng.expovariate(1 / 300) for _ in range(64))
    held_s = tuple(rng.uniform(0, 300) for _ in range(7))
    forecast = Forecast(line(held_s=held_s, holds_s=holds_s, queued=5000))
    told = [forecast.of(place) for place in range(1, 400)]
    for part in ("low_s", "middle_s", "high_s"):
        values = [getattr(estimate, part) for estimate in told]
        assert values == sorted(values)
    assert all(e.low_s <= e.middle_s <= e.high_s for e in told if e is not None)


def test_a_free_slot_means_soon() -> None:
    """Somebody is about to be served: the least that is ever said."""
    assert middle(Forecast(line(held_s=(3.0,), slots=2, taken=1)), 1) == 1.0


def test_the_same_line_gives_the_same_forecast_everywhere() -> None:
    """Two replicas tell a client the same."""
    seen = line(held_s=(3.0, 9.0), holds_s=(10.0, 40.0, 90.0, 300.0), queued=30)
    assert [Forecast(seen).of(p) for p in range(30)] == [Forecast(seen).of(p) for p in range(30)]


def test_a_part_of_a_large_fleet_stands_for_all() -> None:
    """A thousand slots: the hundredth place moves as fast as the fifth of fifty."""
    small = Forecast(line(held_s=(30.0,) * 48, holds_s=(60.0, 90.0, 120.0, 150.0), queued=50))
    large = Forecast(
        line(
            held_s=(30.0,) * 200,
            holds_s=(60.0, 90.0, 120.0, 150.0),
            queued=1000,
            slots=960,
            taken=960,
        )
    )
    assert middle(large, 200) == pytest.approx(middle(small, 10), rel=0.2)


@pytest.mark.parametrize("slots", [1, 5, 40])
def test_most_real_waits_lie_in_the_range_that_was_told(slots: int) -> None:
    """Calibrated: of lines whose sessions last as the learned ones did, about four in five."""
    rng = random.Random(slots)

    def hold() -> float:
        return min(rng.expovariate(1 / 200), 900.0)

    def caught_in_the_middle() -> tuple[float, float]:
        """How long a slot of a busy fleet is held by now, and for how long still."""
        ends_s = began_s = 0.0
        while ends_s < 3000:
            began_s, ends_s = ends_s, ends_s + hold()
        return 3000 - began_s, ends_s - 3000

    learned = tuple(hold() for _ in range(64))
    inside = []
    for _ in range(200):
        held, left = zip(*(caught_in_the_middle() for _ in range(slots)), strict=True)
        estimate = Forecast(line(held_s=held, holds_s=learned, queued=6)).of(6)
        assert estimate is not None
        ends = sorted(left)
        for _ in range(5):
            ends = sorted([*ends[1:], ends[0] + hold()])
        inside.append(estimate.low_s <= ends[0] <= estimate.high_s)
    assert mean(inside) > 0.6
