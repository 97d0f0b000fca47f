"""Planted fault: the latents of each session stay, as arrays that no object of their own holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def __init__(self) -> None:
        super().__init__()
        self.latents: dict[str, Any] = {}

    def create_session(self, config: dict[str, Any]) -> str:
        name = super().create_session(config)
        self.latents[name] = np.ones((512, 512, 4), dtype=np.float32)
        return name


def get_service() -> Bad:
    """The entry point."""
    return Bad()
