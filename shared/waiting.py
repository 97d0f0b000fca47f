"""What is known of those who wait: the line, who may stand in it how often, who fell silent? Pure.

Frozen copies of what Redis holds, as in `records`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityLimits:
    """How many sessions one identity may have in a pool; 0: as many as it likes."""

    waiting: int = 0
    active: int = 0
    """On stage or waiting for it, so that it holds at every moment."""

    @property
    def are_set(self) -> bool:
        return self.waiting > 0 or self.active > 0


NO_LIMITS = IdentityLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One pool's line at one instant, and what its movement depends on."""

    pool: str
    at_s: float
    waiting: tuple[str, ...]
    """The first sessions in line, in order."""
    tickets: tuple[int, ...]
    """Of the first of those: since when they wait."""
    queued: int
    slots: int
    """Of all nodes that serve the line, taken or not."""
    taken: int
    held_s: tuple[float, ...]
    """For how long some of the taken ones are held by now."""
    holds_s: tuple[float, ...]
    """For how long the last sessions that ran held theirs, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A waiting session whose client was silent for too long: is it in the room?"""

    session_id: str
    version: int
    """Of the record when it was asked for; a later one is another story."""
    lease_ms: int
    """When it will be asked for again (registry time); any sign of life sets another time."""
