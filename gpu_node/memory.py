"""Why doesn't a node's memory grow with the sessions that it has had?

Video encoders come and go with the rooms, each with buffers of some hundred KB from threads of its
own. glibc keeps such buffers on its heaps as soon as it has seen one freed (its threshold for
mapping them is dynamic), where they stay behind between small things that live on: measured half a
megabyte to one per session. With a fixed threshold they are mapped and go back to the system when
they're freed; the page faults cost a tenth of the copy of a frame. A service that computes on the
processor inside of the node pays them for its arrays, too; in a process of its own it doesn't.

The media SDK's rooms are cycles of Python objects, each with native memory behind it of which
Python's collector knows nothing: it would wait for a quarter as many objects as the whole process
has. So it is called some seconds after rooms were left, when the SDK's threads are gone, and free
pages of the heaps go back to the system. Measured after 200 sessions: 115 to 140 MiB, not 200.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable

MAPPED_FROM_BYTES = 64 * 1024
TIDY_EVERY_S = 2.5
REST_S = 5.0
"""After a parting the SDK's threads take about as long to end."""
PATIENCE_S = 30.0
"""Where rooms are left all the time it isn't waited longer than this."""
GIVE_BACK_AFTER_S = (5.0, 15.0, 30.0)
"""What was collected the SDK frees on threads of its own, some of it late."""
_M_MMAP_THRESHOLD = -3
"""Source: glibc's malloc.h."""


def keep_large_buffers_off_the_heap() -> bool:
    """Fix glibc's threshold, for the whole process; False with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES) == 1


class Tidying:
    """Frees what rooms that were left have behind them; on the node's loop, every few seconds."""

    def __init__(
        self,
        last_parting_s: Callable[[], float | None],
        now_s: Callable[[], float] = time.monotonic,
        give_back: Callable[[], object] | None = None,
    ) -> None:
        self._last_parting_s = last_parting_s
        self._now_s = now_s
        self._give_back = give_back or give_free_pages_back
        self._done_for_s: float | None = None
        """The parting up to which all was collected."""
        self._done_at_s = now_s()
        self._give_back_at_s: list[float] = []
        gc.freeze()  # modules and the like; see also `services.devices.settle`

    async def look(self) -> None:
        """Do what is due by now."""
        now_s = self._now_s()
        if self._is_untidy(now_s):
            self._done_for_s, self._done_at_s = self._last_parting_s(), now_s
            self._give_back_at_s = [now_s + after_s for after_s in GIVE_BACK_AFTER_S]
            gc.collect()  # milliseconds, since what was there before the sessions is frozen
        elif self._give_back_at_s and now_s >= self._give_back_at_s[0]:
            del self._give_back_at_s[0]
            await asyncio.to_thread(self._give_back)

    def _is_untidy(self, now_s: float) -> bool:
        parted_s = self._last_parting_s()
        if parted_s is None or parted_s == self._done_for_s:
            return False
        return now_s - parted_s >= REST_S or now_s - self._done_at_s >= PATIENCE_S


def give_free_pages_back() -> bool:
    """Return what is free on glibc's heaps to the system; False with another C library."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and trim(0) >= 0
