"""Planted fault: the stream waits on for ever when it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        index = 0
        try:
            while True:
                await asyncio.sleep(0.2)
                yield self.chunk(session_id, index)
                index += 1
        except asyncio.CancelledError:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)

    def close_session(self, session_id: str) -> None:
        """Somebody still streams it."""


def get_service() -> Bad:
    """The entry point."""
    return Bad()
