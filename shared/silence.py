"""For how long was a session on its node without being seen or heard?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What a node knows of it; how much of that was credited already is the registry's to say.

    A credit whose answer was lost, or is still on its way, has been given all the same: a node that
    subtracted what it knows to be credited would give those seconds twice.
    """

    unplayed_s: float = 0.0
    """Seconds since something last left."""
    earlier_s: float = 0.0
    """Seconds of the losses of the room that were over before, in all."""


NO_SILENCE = Silence()
