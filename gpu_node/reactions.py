"""How soon does a picture answer the controller?

A control is answered by the first picture of the first chunk that the service began after it came:
what was in the making before can't know of it, though its pictures still leave. Bounded: a flood of
controls is answered by the same picture, and the oldest of them is the one that waited. Pure.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_MOST_OPEN = 256


class Reactions:
    """The open controls of one session. All times by one clock, monotonic seconds."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._came_s: deque[float] = deque(maxlen=_MOST_OPEN)
        self._answered_s: float | None = None
        """When the oldest control came that the chunk being played answers."""

    def control(self) -> None:
        """A control was taken, and is on its way to the service."""
        self._came_s.append(self._now_s())

    def chunk(self, began_s: float) -> None:
        """The next chunk to be played was begun then."""
        while self._came_s and self._came_s[0] <= began_s:
            came_s = self._came_s.popleft()
            if self._answered_s is None:
                self._answered_s = came_s

    def picture(self) -> float | None:
        """A picture of that chunk leaves; return for how long a control has waited for it."""
        came_s, self._answered_s = self._answered_s, None
        return None if came_s is None else self._now_s() - came_s
