"""Planted fault: each session leaves a thread behind."""

from __future__ import annotations

import threading
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def create_session(self, config: dict[str, Any]) -> str:
        threading.Thread(target=threading.Event().wait, name="denoiser", daemon=True).start()
        return super().create_session(config)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
