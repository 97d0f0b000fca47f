"""How does a test wait for something, without sleeping for a fixed time?

The only place that knows GREENROOM_TEST_TIME_SCALE: every limit of the tests is multiplied by it,
so a slow machine needs one variable instead of many edits.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

TIME_SCALE = float(os.environ.get("GREENROOM_TEST_TIME_SCALE", "1"))
_POLL_S = 0.01


def scaled_s(seconds: float) -> float:
    """Return a time limit as this machine needs it."""
    return seconds * TIME_SCALE


@overload
async def wait_until(
    condition: Callable[[], Awaitable[T]], what: str, timeout_s: float = 5.0
) -> T: ...
@overload
async def wait_until(condition: Callable[[], T], what: str, timeout_s: float = 5.0) -> T: ...
async def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 5.0) -> Any:
    """Return the first true value of *condition*, plain or async; fail naming *what* it was."""
    deadline_s = time.monotonic() + scaled_s(timeout_s)
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {scaled_s(timeout_s):g} s in vain: {what}")
        await asyncio.sleep(_POLL_S)


def wait_until_sync(condition: Callable[[], T], what: str, timeout_s: float = 5.0) -> T:
    """Return the first true value of *condition*; fail naming *what* was waited for."""
    deadline_s = time.monotonic() + scaled_s(timeout_s)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {scaled_s(timeout_s):g} s in vain: {what}")
        time.sleep(_POLL_S)
