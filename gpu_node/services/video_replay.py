"""What does a service look like that only shows something?

A *server push* service: one request, one film, nobody steers. As it is, it shows a test pattern
with a beep each second. For a film of one's own a service file of three lines is enough::

    from pathlib import Path
    from gpu_node.services.video_replay import VideoReplay

    def get_service():
        return VideoReplay(Path("/srv/films/opening.mp4"), loop=True)

``config.duration_s`` ends it earlier.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_node.services import film

MAX_DURATION_S = 24 * 3600


class VideoReplay:
    """Shows one film to whoever comes."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        loop: bool = False,
        pattern: Callable[[], Iterator[film.Cut]] = film.pattern,
    ) -> None:
        self._path, self._loop, self._pattern = path, loop, pattern

    def start(self) -> None:
        """Look into the file, so that a broken one is told before anybody comes."""
        if self._path is not None:
            next(film.video_file(self._path), None)

    def stop(self) -> None:
        """Nothing is kept open."""

    async def serve(self, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the film cut by cut; each is decoded while the one before is shown."""
        limit_s = _duration_s(request)
        cuts = (
            self._pattern() if self._path is None else film.video_file(self._path, loop=self._loop)
        )
        shown_s = 0.0
        for index in itertools.count():
            cut = await asyncio.to_thread(next, cuts, None)
            if cut is None or shown_s >= limit_s:
                break
            shown_s += cut.duration_s
            yield chunk_of(cut, index)
        yield {"type": "done", "index": index, "timestamp": time.time()}


def chunk_of(cut: film.Cut, index: int) -> dict[str, Any]:
    """Return a cut as a chunk of the service contract."""
    height, width = cut.frames[0].shape[:2]
    chunk: dict[str, Any] = {
        "type": "chunk",
        "index": index,
        "fps": cut.fps,
        "frames": list(cut.frames),
        "num_frames": len(cut.frames),
        "resolution": f"{width}x{height}",
        "timestamp": time.time(),
    }
    if cut.sound is not None:
        chunk["audio_b64"] = base64.b64encode(cut.sound.astype("<i2").tobytes()).decode()
        chunk["audio_sample_rate"], chunk["audio_channels"] = film.RATE_HZ, film.CHANNELS
    return chunk


def _duration_s(request: dict[str, Any]) -> float:
    duration_s = request.get("duration_s", MAX_DURATION_S)
    is_number = isinstance(duration_s, int | float) and not isinstance(duration_s, bool)
    if not is_number or not 0 < duration_s <= MAX_DURATION_S:
        raise ValueError(
            f"duration_s must be a number of seconds from 0 to {MAX_DURATION_S}, not "
            f"{duration_s!r:.40}"
        )
    return float(duration_s)


def get_service() -> VideoReplay:
    """What the loader calls."""
    return VideoReplay()
