"""How does a test move time by hand?"""

from __future__ import annotations


class ManualClock:
    """A `shared.clock.Clock` that stands still until it's moved."""

    def __init__(self, at_s: float = 1000.0) -> None:
        self.at_s = at_s

    def move(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.at_s += seconds

    def wall_ms(self) -> int:
        """Milliseconds since 1970, in step with the other clock."""
        return round(self.at_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds that only `move` changes."""
        return self.at_s
