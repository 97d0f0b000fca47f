"""Planted fault: a control of one session moves them all."""

from __future__ import annotations

from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        for name in self.sessions:
            super().push_chunk(name, chunk)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
