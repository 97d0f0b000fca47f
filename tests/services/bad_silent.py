"""Planted fault: without a control there is no frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "status", "stage": "runtime_ready"}
        while not self.sessions[session_id]["controls"]:  # noqa: ASYNC110 - as one is tempted to
            await asyncio.sleep(0.01)
        yield self.chunk(session_id, 0)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
