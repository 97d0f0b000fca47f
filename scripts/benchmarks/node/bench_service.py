"""Which service does the node's benchmark play? One that costs nothing, or exactly what is asked.

Pictures are made beforehand. A session's config says how long making a chunk burns the processor
(``busy_s``); while ``w`` is held, pictures are white. ``TURNS`` notes when chunks began and ended.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

FPS, CHUNK_FRAMES = 16, 4
WIDTH, HEIGHT = 832, 480
TURNS: list[tuple[str, float, float]] = []
"""Session, begin and end of each chunk; for whoever runs it in the same process."""


def pictures(width: int = WIDTH, height: int = HEIGHT) -> list[np.ndarray[Any, Any]]:
    """A pattern that moves to the right, so that the encoder has work of the usual kind."""
    numbers = np.random.default_rng(1)
    coarse = numbers.integers(0, 200, (height // 8, width // 8, 3), dtype=np.uint8)
    one = np.kron(coarse, np.ones((8, 8, 1), dtype=np.uint8))
    return [np.ascontiguousarray(np.roll(one, 4 * n, axis=1)) for n in range(32)]


class BenchWorld:
    """Bidirectional; any number of sessions."""

    warm_up = False

    def __init__(self) -> None:
        self._configs: dict[str, dict[str, Any]] = {}
        self._white: dict[str, bool] = {}

    def start(self) -> None:
        """Make the pictures."""
        self.pictures = pictures()
        self.white = [np.full((HEIGHT, WIDTH, 3), 255, dtype=np.uint8)]

    def stop(self) -> None:
        """Nothing to end."""

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """As many as the operator says."""
        return {"effective_capacity": max_sessions or 1}

    def create_session(self, config: dict[str, Any]) -> str:
        """Remember what it wants."""
        session_id = uuid.uuid4().hex
        self._configs[session_id], self._white[session_id] = config, False
        return session_id

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """White while ``w`` is held."""
        if chunk.get("type") == "control_state" and session_id in self._white:
            self._white[session_id] = "w" in chunk["controls"]

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield chunks for ever, as quickly as they are wanted."""
        config, index = self._configs[session_id], 0
        size = int(config.get("width", WIDTH)), int(config.get("height", HEIGHT))
        shown = self.pictures if size == (WIDTH, HEIGHT) else pictures(*size)
        busy_s = float(config.get("busy_s", 0.0))
        while session_id in self._configs:
            began_s = time.perf_counter()
            if busy_s:
                await asyncio.to_thread(burn, busy_s)
            first = index * CHUNK_FRAMES
            frames = [shown[(first + n) % len(shown)] for n in range(CHUNK_FRAMES)]
            if self._white[session_id]:
                frames = self.white * CHUNK_FRAMES
            TURNS.append((session_id, began_s, time.perf_counter()))
            yield {"type": "chunk", "index": index, "fps": FPS, "frames": frames}
            index += 1

    def close_session(self, session_id: str) -> None:
        """Forget it; its chunks end."""
        self._configs.pop(session_id, None)
        self._white.pop(session_id, None)


def burn(seconds: float) -> None:
    """Keep the interpreter busy, as a model written in Python does."""
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        sum(range(200))


def get_service() -> BenchWorld:
    """What the loader calls."""
    return BenchWorld()
