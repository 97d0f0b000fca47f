"""Planted fault: what a killed process leaves behind keeps the next one from starting."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.services.sound_world import World

_LOCK = Path(tempfile.gettempdir()) / "greenroom-test-bad-lock"


class Bad(World):
    """One that has it."""

    def start(self) -> None:
        if _LOCK.exists():
            raise RuntimeError("another process has the weights mapped")
        _LOCK.touch()

    def stop(self) -> None:
        _LOCK.unlink(missing_ok=True)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
