"""What does the smallest service look like that answers to its player?

A *bidirectional* service that draws what is pressed onto a film: an arrow for each direction, in
the next picture. It needs no model, so it shows whether controls, pictures and sound arrive, and
how late. A film of one's own: `Overlay(Path(...))` in a service file, as in `video_replay`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from gpu_node.services import film
from gpu_node.services.video_replay import chunk_of

CAPACITY = 4
DIRECTIONS = {
    "up": (0, -1), "w": (0, -1), "forward": (0, -1), "i": (0, -1),
    "down": (0, 1), "s": (0, 1), "backward": (0, 1), "k": (0, 1),
    "left": (-1, 0), "a": (-1, 0), "j": (-1, 0),
    "right": (1, 0), "d": (1, 0), "l": (1, 0),
}  # fmt: skip
_SHAFT, _HEAD, _WIDTH = 60, 16, 10
_COLOUR = (255, 214, 10)


@dataclass(slots=True)
class Session:
    """One player; written on the service loop only."""

    held: frozenset[str] = frozenset()
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, chunk: dict[str, Any]) -> None:
        """Apply one control message; what isn't known is ignored."""
        kind = chunk.get("type")
        if kind == "control_state":
            self.held = frozenset(map(str, chunk.get("controls") or ()))
        elif kind == "control":
            name = str(chunk.get("control") or chunk.get("key"))
            pressed = (chunk.get("event") or chunk.get("action")) == "press"
            self.held = self.held | {name} if pressed else self.held - {name}
        elif kind == "stop":
            self.stopped.set()


class Overlay:
    """Draws what each player holds onto that player's own showing of the film."""

    def __init__(
        self, path: Path | None = None, *, pattern: Callable[[], Iterator[film.Cut]] = film.pattern
    ) -> None:
        self._path, self._pattern = path, pattern
        self._sessions: dict[str, Session] = {}
        self._capacity = CAPACITY

    def start(self) -> None:
        """Look into the file, so that a broken one is told before anybody comes."""
        if self._path is not None:
            next(film.video_file(self._path), None)

    def stop(self) -> None:
        """Nothing is kept open."""

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Take at most *max_sessions*."""
        self._capacity = min(max_sessions or CAPACITY, CAPACITY)
        return {"effective_capacity": self._capacity}

    def create_session(self, config: dict[str, Any]) -> str:  # noqa: ARG002 (the contract's)
        """Make a session; everybody sees the film from its beginning."""
        if len(self._sessions) >= self._capacity:
            raise RuntimeError(f"all {self._capacity} places are taken")
        session_id = f"overlay-{uuid.uuid4().hex}"
        self._sessions[session_id] = Session()
        return session_id

    def has_session(self, session_id: str) -> bool:
        """Whether controls for this id still have an effect."""
        return session_id in self._sessions

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Take one control message."""
        if session := self._sessions.get(session_id):
            session.take(chunk)

    def close_session(self, session_id: str) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the film with what is held drawn onto it."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        cuts = self._pattern() if self._path is None else film.video_file(self._path, loop=True)
        for index in itertools.count():
            cut = await asyncio.to_thread(next, cuts, None)
            if cut is None or session.stopped.is_set():
                break
            held = session.held
            drawn = await asyncio.to_thread(_draw, cut, held)
            yield chunk_of(drawn, index) | {"applied_controls": sorted(held)}
        yield {"type": "done", "index": index, "timestamp": time.time()}


def _draw(cut: film.Cut, held: frozenset[str]) -> film.Cut:
    named = {name.removeprefix("Arrow").removeprefix("Key").lower() for name in held}
    ways = {DIRECTIONS[name] for name in named if name in DIRECTIONS}
    if not ways:
        return cut
    frames = tuple(_with_arrows(frame, ways) for frame in cut.frames)
    return film.Cut(fps=cut.fps, frames=frames, sound=cut.sound)


def _with_arrows(frame: film.Picture, ways: set[tuple[int, int]]) -> film.Picture:
    image = Image.fromarray(frame)
    pen = ImageDraw.Draw(image)
    x, y = image.width // 2, image.height // 2
    for dx, dy in sorted(ways):
        tip = (x + dx * _SHAFT, y + dy * _SHAFT)
        pen.line([(x, y), tip], fill=_COLOUR, width=_WIDTH)
        side = (dy * _HEAD, dx * _HEAD)
        pen.polygon(
            [
                (tip[0] + dx * _HEAD, tip[1] + dy * _HEAD),
                (tip[0] + side[0], tip[1] + side[1]),
                (tip[0] - side[0], tip[1] - side[1]),
            ],
            fill=_COLOUR,
        )
    return np.asarray(image)


def get_service() -> Overlay:
    """What the loader calls."""
    return Overlay()
