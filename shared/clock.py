"""What time is it: wall (epoch ms) or monotonic (s)?

Nothing in Redis depends on this clock: scripts read the server's own. Here it serves waiting,
pacing and, on the node, the moment at which it must fall silent.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time; tests hand in one that is moved by hand."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for people and logs; may step."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back and that run on while the machine sleeps."""
        ...


class SystemClock:
    """The machine's clock. Monotonic is CLOCK_BOOTTIME: a suspended laptop may not keep a lease."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
