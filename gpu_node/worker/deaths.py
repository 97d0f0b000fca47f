"""How often may the child of a node die before the node gives up?

Three deaths in a row are its own fault: the model, the driver or the memory isn't right, and a
fourth child would die as well. Two things break the row. A child that served for a minute has shown
that it can. And if one and the same session was there at all of them, the blame is the session's:
the registry counts for it (R4) and ends it, and the node must be there for the others.
"""

from __future__ import annotations

_MOST = 3
_PROVEN_AFTER_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


class Deaths:
    """The deaths in a row of one node's children; pure."""

    def __init__(self) -> None:
        self._sessions: list[frozenset[str]] = []
        """Which sessions were there at each of them."""

    def note(self, *, served_s: float, sessions: frozenset[str]) -> None:
        """A child died after it had served for *served_s*, with these sessions."""
        if served_s >= _PROVEN_AFTER_S:
            self._sessions.clear()
        self._sessions.append(sessions)
        if len(self._sessions) >= _MOST and frozenset.intersection(*self._sessions[-_MOST:]):
            self._sessions.clear()

    @property
    def is_too_many(self) -> bool:
        """Whether the node should give up."""
        return len(self._sessions) >= _MOST

    @property
    def pause_s(self) -> float:
        """How long to wait before the next child."""
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** max(0, len(self._sessions) - 1))
