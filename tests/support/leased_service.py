"""A service whose sessions share one model by the execution lease, and that notices if they don't.

``max_chunks`` of the constructor is the maximum hold; loaded as a file it has none, so that an idle
player must hand over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.support.synthetic_service import Journal, SyntheticService


class LeasedService(SyntheticService):
    """Counts how many chunks are being made at once."""

    execution_lease = "node"
    warm_up = False

    def __init__(self, journal: Journal, max_chunks: int | None = None) -> None:
        super().__init__(journal)
        self.execution_lease_max_chunks = max_chunks
        self.at_work: set[str] = set()
        self.most_at_once = 0
        self.made_by: dict[str, int] = {}

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        chunks = super().pull_chunks(session_id)
        self._begin(session_id)
        async for chunk in chunks:
            self.made_by[session_id] = self.made_by.get(session_id, 0) + 1
            self.at_work.discard(session_id)
            yield chunk
            self._begin(session_id)
        self.at_work.discard(session_id)

    def close_session(self, session_id: str) -> None:
        self.at_work.discard(session_id)
        super().close_session(session_id)

    def _begin(self, session_id: str) -> None:
        self.at_work.add(session_id)
        self.most_at_once = max(self.most_at_once, len(self.at_work))


def get_service() -> LeasedService:
    """The entry point."""
    return LeasedService(Journal())
