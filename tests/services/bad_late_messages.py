"""Planted fault: a message for a session that is gone raises."""

from __future__ import annotations

from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        self.sessions[session_id]["controls"] = chunk.get("controls", [])


def get_service() -> Bad:
    """The entry point."""
    return Bad()
