"""When is a child stuck, so that only its end helps?

It says every half second that it lives. It's stuck when something is wanted of it (a call isn't
answered, a player waits for a chunk) and for ten seconds either nothing came from it, as when
somebody's code never lets go of the interpreter, or its service loop didn't turn, as when a call
that must be quick never returns. While a service comes up it may be silent for longer, and its loop
may stand: the warm-up, which may compile a model there, has limits of its own. While a session
begins, the loop may stand as long as the service says that a start takes.

Time is counted in looks of the node itself, so a node that was frozen finds no child guilty.
"""

from __future__ import annotations

from dataclasses import dataclass

LOOK_EVERY_S = 0.5
STUCK_AFTER_S = 10.0
COMING_UP_STUCK_AFTER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of the child at one look."""

    anything: bool
    is_coming_up: bool
    is_beginning: bool
    """A session is being made, or its first chunk."""


class ChildWatch:
    """Judges one child; pure."""

    def __init__(self, *, stuck_after_s: float = STUCK_AFTER_S) -> None:
        self._stuck_after_s = stuck_after_s
        self._silent_looks = 0
        self._heard = False
        self._loop_age_s = 0.0
        self.start_timeout_s = 0.0

    def hear(self, *, loop_age_s: float | None = None) -> None:
        """Something came from the child; it may say how long a loop has stood."""
        self._heard = True
        if loop_age_s is not None:
            self._loop_age_s = loop_age_s

    def look(self, wanted: Wanted) -> str | None:
        """Return why the child is stuck, or None; called every half second."""
        silent = wanted.anything and not self._heard
        self._silent_looks = self._silent_looks + 1 if silent else 0
        self._heard = False
        if not wanted.anything:
            return None
        limit_s = COMING_UP_STUCK_AFTER_S if wanted.is_coming_up else self._stuck_after_s
        if self._silent_looks * LOOK_EVERY_S >= limit_s:
            return f"it gave no sign of life for {limit_s:g} s"
        if wanted.is_coming_up:
            return None
        if wanted.is_beginning:
            limit_s = max(limit_s, self.start_timeout_s)
        if self._loop_age_s >= limit_s:
            return f"a call of its service didn't return for {limit_s:g} s"
        return None
