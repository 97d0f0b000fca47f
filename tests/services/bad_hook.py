"""Planted fault: a hook answers with something else than it must."""

from __future__ import annotations

from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def runtime_metrics(self, session_id: str | None = None) -> Any:
        return None if session_id else {"active_sessions": len(self.sessions)}


def get_service() -> Bad:
    """The entry point."""
    return Bad()
