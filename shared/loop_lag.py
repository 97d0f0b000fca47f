"""How late does the event loop come to its timers?

A loop that computes, or waits where it should await, serves nobody meanwhile: each call, frame and
heartbeat is late by as much. One timer a few times a second is enough to see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

EVERY_S = 0.25


async def watch_loop(observe: Callable[[float], None], *, every_s: float = EVERY_S) -> NoReturn:
    """Tell *observe* for ever how many seconds late each of the timers was."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + every_s
        await asyncio.sleep(every_s)
        observe(max(0.0, loop.time() - due_s))
