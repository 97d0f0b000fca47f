"""Planted fault: a control is acted on at once, on the loop of all sessions."""

from __future__ import annotations

import time
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        time.sleep(0.3)
        super().push_chunk(session_id, chunk)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
