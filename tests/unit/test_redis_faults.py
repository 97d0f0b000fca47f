"""Why wasn't a call to Redis answered, in a word that can be counted?"""

from __future__ import annotations

import pytest
import redis.exceptions

from shared.store.connection import FAULTS, _kind_of
from shared.store.endpoints import Nowhere


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (TimeoutError(), "timeout"),
        (redis.exceptions.TimeoutError(), "timeout"),
        (redis.exceptions.BusyLoadingError(), "loading"),
        (redis.exceptions.AuthenticationError(), "refused"),
        (redis.exceptions.NoPermissionError(), "refused"),
        (redis.exceptions.MovedError("1 127.0.0.1:7000"), "moved"),
        (redis.exceptions.ConnectionError(), "unreachable"),
        (ConnectionRefusedError(), "unreachable"),
        (Nowhere(), "unreachable"),
        (redis.exceptions.ReadOnlyError(), "other"),
    ],
)
def test_each_fault_has_a_word_of_a_closed_set(fault: Exception, word: str) -> None:
    """Labels of a metric don't grow with what servers say."""
    assert _kind_of(fault) == word
    assert word in FAULTS
