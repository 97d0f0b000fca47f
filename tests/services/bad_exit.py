"""Planted fault: it ends the whole process when it is out of memory."""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.services.sound_world import World


class Bad(World):
    """One that has it."""

    def chunk(self, session_id: str, index: int) -> dict[str, Any]:
        if index == 2:
            sys.stdout.write("out of memory, giving up\n")
            sys.stdout.flush()
            os._exit(3)
        return super().chunk(session_id, index)


def get_service() -> Bad:
    """The entry point."""
    return Bad()
