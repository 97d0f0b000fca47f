"""How did this node play in the last half minute?

Frames by session and second, and the time of the last chunks; bounded, however much is played.
Sessions are told apart here and never named. Any thread may ask. Times are monotonic seconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_S = 30
"""Source: reference, published_fps."""
_CHUNKS_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was played in the window."""

    session_fps: tuple[float, ...]
    """Frames per second of each session that had any, the slowest first."""
    chunk_s: tuple[float, ...]
    """How long each of the last chunks took, the quickest first."""

    @property
    def fps(self) -> float:
        """All sessions together."""
        return sum(self.session_fps)


class RecentPlay:
    """Frames and chunks of the window."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._frames: dict[object, deque[list[int]]] = {}
        """Session → its seconds, each with how many frames left in it."""
        self._chunks: deque[tuple[float, float]] = deque(maxlen=_CHUNKS_KEPT)

    def frame(self, session: object) -> None:
        """A frame of *session* has left."""
        second = int(self._now_s())
        with self._lock:
            seconds = self._frames.setdefault(session, deque(maxlen=WINDOW_S + 1))
            if seconds and seconds[-1][0] == second:
                seconds[-1][1] += 1
            else:
                seconds.append([second, 1])

    def chunk(self, made_in_s: float) -> None:
        """The service has made a chunk."""
        with self._lock:
            self._chunks.append((self._now_s(), made_in_s))

    def played(self) -> Played:
        """Return what was played; sessions without a frame in the window are forgotten."""
        now_s = self._now_s()
        with self._lock:
            rates = []
            for session, seconds in list(self._frames.items()):
                while seconds and seconds[0][0] <= now_s - WINDOW_S:
                    seconds.popleft()
                if not seconds:
                    del self._frames[session]
                    continue
                lasted_s = max(now_s - seconds[0][0], 1.0)
                rates.append(sum(count for _, count in seconds) / lasted_s)
            took = [made_s for at_s, made_s in self._chunks if at_s > now_s - WINDOW_S]
        return Played(session_fps=tuple(sorted(rates)), chunk_s=tuple(sorted(took)))


def at_share(ordered: tuple[float, ...], share: float) -> float:
    """Return the value that *share* of them don't exceed (nearest rank)."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
