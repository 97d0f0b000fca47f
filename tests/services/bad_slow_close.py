"""Planted fault: closing a session takes its time."""

from __future__ import annotations

import time

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def close_session(self, session_id: str) -> None:
        time.sleep(0.8)
        super().close_session(session_id)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
