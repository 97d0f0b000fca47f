"""A time limit that a stalled loop doesn't use up."""

from __future__ import annotations

import asyncio
import time

import pytest

from shared.store.patience import awake_timeout
from tests.support.wait import scaled_s


async def test_what_never_ends_is_stopped() -> None:
    """As `asyncio.timeout` does it; the task can go on after that."""
    with pytest.raises(TimeoutError):
        async with awake_timeout(0.02):
            await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_what_ends_in_time_is_left_alone() -> None:
    """Nothing comes later either."""
    async with awake_timeout(0.02) as limit:
        await asyncio.sleep(0)
    assert limit._timer.cancelled()


async def test_a_stall_uses_up_a_quarter() -> None:
    """What was there all the time is seen when the loop moves again."""
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    async with awake_timeout(0.2):
        loop.call_later(0.01, loop.call_soon, loop.call_soon, seen.set)
        stalled_until_s = time.monotonic() + 0.5
        while time.monotonic() < stalled_until_s:
            pass
        await seen.wait()


async def test_a_cancellation_from_outside_stays_one() -> None:
    """Even when the time is up in the same moment."""

    async def wait() -> None:
        async with awake_timeout(60) as limit:
            limits.append(limit)
            await asyncio.Event().wait()

    for both in (False, True):
        limits: list[awake_timeout] = []
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        if both:
            limits[0]._left = 1
            limits[0]._tick()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=scaled_s(5))
        assert done
        assert task.cancelled()
