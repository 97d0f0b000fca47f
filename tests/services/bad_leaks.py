"""Planted fault: something of each session stays."""

from __future__ import annotations

from typing import Any

from tests.services.sound_world import World


class Memory:
    """What a session remembers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config


class Bad(World):
    """One that has it."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Memory] = []

    def create_session(self, config: dict[str, Any]) -> str:
        self.history.append(Memory(config))
        return super().create_session(config)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
