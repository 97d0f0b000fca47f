"""When does each frame leave?

A next-frame clock: each frame is due one interval after the one before it, not one interval after
it really left, so small delays don't add up. A frame that is late by more than one interval starts
the clock again from now: the lost time is lost, and no burst of frames makes up for it.
"""

from __future__ import annotations


class Pacer:
    """The clock of one session's video. Pure: the time now is handed in, monotonic seconds."""

    def __init__(self) -> None:
        self._next_s: float | None = None
        self._interval_s = 0.0

    def due_s(self, now_s: float, fps: float) -> float:
        """Take the next frame's turn and return when it must leave; at once if that has passed.

        *fps* may differ from frame to frame; it says how long this frame is shown.
        """
        due_s = self._next_s
        if due_s is None or now_s - due_s > self._interval_s:
            due_s = now_s
        self._interval_s = 1.0 / fps
        self._next_s = due_s + self._interval_s
        return due_s

    def restart(self) -> None:
        """Forget the clock, as after a silence: the next frame is due when it comes."""
        self._next_s = None
