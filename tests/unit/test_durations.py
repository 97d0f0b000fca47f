"""What can be read off a histogram?"""

from __future__ import annotations

import pytest

from shared.durations import Histogram, histogram, quantile_s, since

SEEN = {"w_le_1": 5, "w_le_10": 4, "w_le_inf": 1, "w_ms": 61_000}


def test_a_quantile_lies_within_its_bucket_in_proportion() -> None:
    """As Prometheus reads it: five within a second, nine within ten."""
    counted = histogram(SEEN, "w")
    assert quantile_s(counted, 0.5) == 1.0
    assert quantile_s(counted, 0.7) == pytest.approx(5 + 5 * 2 / 4)


def test_what_exceeds_all_bounds_is_the_highest_of_them() -> None:
    """Nobody knows by how much."""
    assert quantile_s(histogram(SEEN, "w"), 0.99) == 3600.0


def test_without_durations_there_is_no_quantile() -> None:
    """None of nothing."""
    assert quantile_s(histogram({}, "w"), 0.5) is None


def test_what_came_in_between_is_a_difference() -> None:
    """Bucket by bucket, and of the sums."""
    earlier = histogram(SEEN, "w")
    later = histogram({**SEEN, "w_le_10": 6, "w_ms": 73_000}, "w")
    between = since(earlier, later)
    assert (between.count, between.sum_s) == (2, 12.0)
    assert dict(between.buckets)["5"] == 0
    assert dict(between.buckets)["10"] == 2


def test_a_registry_that_began_anew_is_all_news() -> None:
    """It counts less than before: nothing of what was seen is in it."""
    anew = histogram({"w_le_1": 1, "w_ms": 500}, "w")
    assert since(histogram(SEEN, "w"), anew) == anew
    assert isinstance(anew, Histogram)
