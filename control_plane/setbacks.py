"""How many sessions failed, and how many nodes were lost, within the last hour?

Counted from the audit trail: at first from its last hour, later only from what has come since. The
trail keeps about ten thousand changes; in a busy pool that is less than an hour, so the answer says
from when on it is known.
"""

from __future__ import annotations

from collections import deque

from control_plane.operator_view import Setbacks
from shared.events import Event
from shared.states import ENDED_AS, SessionState
from shared.store import Registry

WINDOW_MS = 3_600_000
_FAILURES = frozenset(
    str(reason) for reason, state in ENDED_AS.items() if state is SessionState.FAILED
)


class SetbackCount:
    """Counts for one pool; one caller at a time."""

    def __init__(self, registry: Registry, pool: str) -> None:
        self._registry = registry
        self._pool = pool
        self._after = ""
        """Id of the last entry that was looked at."""
        self._known_since_ms = 0
        self._failed: deque[int] = deque()
        self._lost: deque[int] = deque()

    async def at(self, now_ms: int) -> Setbacks:
        """Return the counts of the hour before *now_ms* (the server's clock).

        Raises:
            StoreUnavailable: Redis is out; what was counted so far is counted once.
        """
        begin_ms = now_ms - WINDOW_MS
        if not self._after:
            await self._begin(begin_ms)
        async for event in self._registry.trail.read(self._pool, since=f"({self._after}"):
            self._note(event)
            self._after = event.id
        for times in (self._failed, self._lost):
            while times and times[0] < begin_ms:
                times.popleft()
        return Setbacks(
            failed=len(self._failed),
            nodes_lost=len(self._lost),
            since_ms=max(begin_ms, self._known_since_ms),
        )

    async def _begin(self, begin_ms: int) -> None:
        trail = self._registry.trail
        first = await trail.first(self._pool)
        if first is not None and await trail.is_trimmed(self._pool):
            self._known_since_ms = first.at_ms
        self._after = f"{begin_ms}-0"

    def _note(self, event: Event) -> None:
        if event.what == "ended" and event.why in _FAILURES:
            self._failed.append(event.at_ms)
        elif event.what == "node_died":
            self._lost.append(event.at_ms)
