"""Planted fault: create_session is a coroutine, which nobody awaits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    async def create_session(self, config: dict[str, Any]) -> str:  # type: ignore[override]
        return super().create_session(config)

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        async for chunk in super().pull_chunks(session_id):
            yield chunk


def get_service() -> Bad:
    """The entry point."""
    return Bad()
