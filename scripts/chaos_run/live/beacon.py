"""A model service that costs next to nothing: a bar that wanders over a grey picture.

Written to the service contract like anybody's file. It starts at once, so what a takeover takes is
what Greenroom and LiveKit take.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

FPS = 20
_FRAMES = 2
_HEIGHT, _WIDTH = 180, 320
_BAR = 16


class Beacon:
    """Bidirectional; what is pushed is ignored."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: set[str] = set()

    def start(self) -> None:
        """There is nothing to load."""

    def stop(self) -> None:
        """There is nothing to unload."""

    def create_session(self, config: dict[str, Any]) -> str:  # noqa: ARG002 - the contract
        """Return the name of a new session."""
        name = f"beacon-{next(self._numbers)}"
        self._open.add(name)
        return name

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Nobody steers a beacon."""

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield tenths of a second until the session is closed."""
        for index in itertools.count():
            if session_id not in self._open:
                return
            frames = [_picture(index * _FRAMES + offset) for offset in range(_FRAMES)]
            yield {"type": "chunk", "index": index, "fps": FPS, "frames": frames}
            await asyncio.sleep(_FRAMES / FPS / 2)

    def close_session(self, session_id: str) -> None:
        """Forget it."""
        self._open.discard(session_id)


def _picture(number: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    picture = np.full((_HEIGHT, _WIDTH, 3), 90, dtype=np.uint8)
    left = number * 4 % (_WIDTH - _BAR)
    picture[:, left : left + _BAR] = 230
    return picture


def get_service() -> Beacon:
    """The entry point."""
    return Beacon()
