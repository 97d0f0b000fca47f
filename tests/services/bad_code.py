"""Planted fault: text becomes code."""

from __future__ import annotations

from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def create_session(self, config: dict[str, Any]) -> str:
        config["speed"] = eval(str(config.get("speed", "1")))
        return super().create_session(config)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
