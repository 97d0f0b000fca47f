"""Planted fault: the frames are floats from 0 to 1, as models make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def chunk(self, session_id: str, index: int) -> dict[str, Any]:
        frames = [np.zeros((16, 16, 3), dtype=np.float32)]
        return {**super().chunk(session_id, index), "frames": frames}


def get_service() -> Bad:
    """The entry point."""
    return Bad()
