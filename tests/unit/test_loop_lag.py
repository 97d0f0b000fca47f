"""How late does an event loop come to its timers?"""

from __future__ import annotations

import asyncio
import time

from shared.loop_lag import watch_loop
from tests.support.wait import wait_until

STUCK_S = 0.3


async def test_a_loop_that_computes_is_late_by_as_much() -> None:
    """Whatever else this machine does, it can't be less."""
    lags: list[float] = []
    watch = asyncio.create_task(watch_loop(lags.append, every_s=0.05))
    await wait_until(lambda: lags, "the first timer")
    until_s = time.monotonic() + STUCK_S
    while time.monotonic() < until_s:
        pass  # as a service does that computes on the loop
    before = len(lags)
    await wait_until(lambda: len(lags) > before, "the timer that was due meanwhile")
    watch.cancel()
    assert max(lags) >= STUCK_S - 0.06
    assert min(lags) >= 0
