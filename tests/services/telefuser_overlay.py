"""A bidirectional service as somebody writes one for the reference, who has never heard of us.

From its contract alone: a test pattern on which arrows show the controls that are held, drawn with
cv2; media one level down, under ``data``. No base class, no import of ours, no hook.
"""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

WIDTH, HEIGHT, FPS = 416, 240, 24
PATTERN_FRAMES = 48
FRAMES_PER_CHUNK = 4
ARROWS = {
    "ArrowUp": (0, -1), "w": (0, -1), "KeyW": (0, -1), "up": (0, -1), "forward": (0, -1),
    "ArrowDown": (0, 1), "s": (0, 1), "KeyS": (0, 1), "down": (0, 1), "backward": (0, 1),
    "ArrowLeft": (-1, 0), "a": (-1, 0), "KeyA": (-1, 0), "left": (-1, 0),
    "ArrowRight": (1, 0), "d": (1, 0), "KeyD": (1, 0), "right": (1, 0),
}  # fmt: skip


@dataclass
class OverlaySession:
    """One viewer's state."""

    config: dict[str, Any]
    held: set[str] = field(default_factory=set)
    events: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    emitted: int = 0


class ArrowOverlayService:
    """All sessions share the pattern; each has its own arrows."""

    def __init__(self) -> None:
        self.sessions: dict[str, OverlaySession] = {}
        self.pattern: list[np.ndarray[Any, Any]] = []

    def start(self) -> None:
        """Draw the pattern."""
        for index in range(PATTERN_FRAMES):
            frame = np.full((HEIGHT, WIDTH, 3), 24, np.uint8)
            x = int(WIDTH * index / PATTERN_FRAMES)
            cv2.rectangle(frame, (x, 0), (x + 12, HEIGHT), (70, 110, 150), -1)
            self.pattern.append(frame)

    def stop(self) -> None:
        """End what is left."""
        for session in self.sessions.values():
            session.stopped.set()
        self.sessions.clear()

    def create_session(self, config: dict[str, Any]) -> str:
        """Begin with no arrow."""
        session_id = uuid.uuid4().hex
        self.sessions[session_id] = OverlaySession(config=config)
        return session_id

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Remember what is held."""
        session = self.sessions.get(session_id)
        if session is None:
            return
        kind = chunk.get("type")
        if kind == "stop":
            session.stopped.set()
        elif kind == "control_state":
            session.held = {name for name in chunk.get("controls", []) if name in ARROWS}
            session.events.put_nowait({"stage": "control_state", "controls": sorted(session.held)})
        elif kind == "control":
            name = chunk.get("control") or chunk.get("key")
            event = chunk.get("event") or chunk.get("action")
            if event == "press" and name in ARROWS:
                session.held.add(str(name))
            elif event in ("release", "keyup", "end"):
                session.held.discard(str(name))
            elif event in ("reset", "reset_pose"):
                session.held.clear()

    async def pull_chunks(self, session_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the pattern with arrows, for as long as nobody stops it."""
        session = self.sessions[session_id]
        index = 0
        while not session.stopped.is_set():
            while not session.events.empty():
                yield {"type": "status", "timestamp": time.time(), **session.events.get_nowait()}
            held = sorted(session.held)
            frames = await asyncio.to_thread(self._render, index, held)
            session.emitted += len(frames)
            yield {
                "type": "chunk",
                "index": index,
                "timestamp": time.time(),
                "applied_controls": held,
                "data": {"frames_b64": frames, "fps": FPS, "num_frames": len(frames)},
            }
            index += 1
        yield {"type": "done"}

    def close_session(self, session_id: str) -> None:
        """Forget the session."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.stopped.set()

    def _render(self, index: int, held: list[str]) -> list[str]:
        frames = []
        for offset in range(FRAMES_PER_CHUNK):
            place = (index * FRAMES_PER_CHUNK + offset) % PATTERN_FRAMES
            frame = self.pattern[place].copy()
            for name in held:
                dx, dy = ARROWS[name]
                middle = (WIDTH // 2, HEIGHT // 2)
                tip = (middle[0] + 90 * dx, middle[1] + 90 * dy)
                cv2.arrowedLine(frame, middle, tip, (60, 220, 250), 12, tipLength=0.4)
            ok, jpeg = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 85])
            if not ok:
                raise RuntimeError("the frame can't be encoded")
            frames.append(base64.b64encode(jpeg.tobytes()).decode("ascii"))
        return frames


def get_service() -> ArrowOverlayService:
    """The entry point."""
    return ArrowOverlayService()
