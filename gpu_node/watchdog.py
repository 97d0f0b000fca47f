"""Is the event loop stuck, and what then?

The beat's thread outlives a stuck loop. It would renew the lease of sessions that nobody plays, for
ever (R12). So it looks at the loop before each beat; once that hasn't moved for ten seconds no beat
leaves any more, and the process is killed: a loop that doesn't run can't clean up, and what it
holds moves on when the lease has run out. A process that was frozen as a whole is none of that: its
thread has stood as well, so the time between two of its looks says nothing about the loop.
"""

from __future__ import annotations

import os
import signal

import structlog

_log = structlog.get_logger()

STUCK_AFTER_S = 10.0
_SLACK_S = 2.0
"""A look may come so late because of a beat that waits for its answer."""


class LoopWatch:
    """How long has the loop stood while the thread that asks was running?"""

    def __init__(self, every_s: float) -> None:
        self._longest_pause_s = every_s + _SLACK_S
        self._moved_at_s = self._still_since_s = self._looked_at_s = float("-inf")

    def is_stuck(self, moved_at_s: float, now_s: float) -> bool:
        """Look once: the loop moved last at *moved_at_s*."""
        was_away = now_s - self._looked_at_s > self._longest_pause_s
        if was_away or moved_at_s != self._moved_at_s:
            self._still_since_s = now_s
        self._moved_at_s, self._looked_at_s = moved_at_s, now_s
        return now_s - self._still_since_s > STUCK_AFTER_S


def kill_this_process() -> None:
    """End at once, from any thread; whatever supervises the node starts it anew."""
    _log.error("event_loop_stuck", after_s=STUCK_AFTER_S)
    os.kill(os.getpid(), signal.SIGKILL)
