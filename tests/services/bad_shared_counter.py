"""Planted fault: all sessions take their chunks from one counter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def __init__(self) -> None:
        super().__init__()
        self.index = 0

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        async for chunk in super().pull_chunks(session_id):
            chunk["index"] = self.index
            self.index += 1
            yield chunk


def get_service() -> Bad:
    """The entry point."""
    return Bad()
