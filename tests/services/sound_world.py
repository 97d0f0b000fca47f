"""A small service without a fault, from which the faulty ones beside it are made.

Each of them changes one thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np


class World:
    """As many sessions as one likes; each counts its own chunks."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.made = 0

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.sessions.clear()

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        return {"effective_capacity": min(max_sessions or 2, 2)}

    def create_session(self, config: dict[str, Any]) -> str:
        self.made += 1
        name = f"world-{self.made}"
        self.sessions[name] = {"controls": [], "config": config}
        return name

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session["controls"] = chunk.get("controls", [])

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        index = 0
        while session_id in self.sessions:
            await asyncio.sleep(0.001)
            yield self.chunk(session_id, index)
            index += 1

    def chunk(self, session_id: str, index: int) -> dict[str, Any]:
        applied = self.sessions[session_id]["controls"]
        return {
            "type": "chunk",
            "index": index,
            "fps": 30,
            "frames": [np.full((16, 16, 3), index % 256, dtype=np.uint8)] * 2,
            "applied_controls": list(applied),
        }

    def close_session(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)


def get_service() -> World:
    """The entry point."""
    return World()
