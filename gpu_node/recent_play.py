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

from shared.play_facts import PlayFacts

WINDOW_S = 30
"""Source: reference, published_fps."""
_CHUNKS_KEPT = 256
_FRAMES_KEPT = 1024
"""Whose lateness is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was played in the window."""

    session_fps: tuple[float, ...]
    """Frames per second of each session here that had any, the slowest first."""
    chunk_s: tuple[float, ...]
    """How long each of the last chunks took, the quickest first."""
    late_s: tuple[float, ...]
    """How late each of the last frames left, the most punctual first."""
    in_time: float | None
    """Share of the chunks that were made within the time that they play; None: there were none."""

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
        self._chunks: deque[tuple[float, float, bool]] = deque(maxlen=_CHUNKS_KEPT)
        """When each came, how long it took, and whether that was in time."""
        self._lease_waiting: int | None = None
        self._late: deque[tuple[float, float]] = deque(maxlen=_FRAMES_KEPT)

    def frame(self, session: object, late_s: float) -> None:
        """A frame of *session* has left, so late."""
        now_s = self._now_s()
        second = int(now_s)
        with self._lock:
            self._late.append((now_s, late_s))
            seconds = self._frames.setdefault(session, deque(maxlen=WINDOW_S + 1))
            if seconds and seconds[-1][0] == second:
                seconds[-1][1] += 1
            else:
                seconds.append([second, 1])

    def left(self, session: object) -> None:
        """*session* is no longer played here: that it shows nothing more isn't slowness."""
        with self._lock:
            self._frames.pop(session, None)

    def chunk(self, made_in_s: float, *, in_time: bool) -> None:
        """The service has made a chunk, within the time that it plays or not."""
        with self._lock:
            self._chunks.append((self._now_s(), made_in_s, in_time))

    def lease(self, waiting: int) -> None:
        """So many sessions wait for their turn on the shared model."""
        self._lease_waiting = waiting

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
            chunks = [chunk for chunk in self._chunks if chunk[0] > now_s - WINDOW_S]
            late = [late_s for at_s, late_s in self._late if at_s > now_s - WINDOW_S]
        return Played(
            session_fps=tuple(sorted(rates)),
            chunk_s=tuple(sorted(made_s for _, made_s, _ in chunks)),
            late_s=tuple(sorted(late)),
            in_time=sum(chunk[2] for chunk in chunks) / len(chunks) if chunks else None,
        )

    def facts(self) -> PlayFacts:
        """Return the same in the few numbers that are told to the registry."""
        played = self.played()
        rates, chunk_s, late_s = played.session_fps, played.chunk_s, played.late_s
        return PlayFacts(
            playing=len(rates),
            fps=round(played.fps / len(rates), 1) if rates else None,
            fps_min=round(rates[0], 1) if rates else None,
            chunk_p95_s=round(at_share(chunk_s, 0.95), 3) if chunk_s else None,
            in_time=None if played.in_time is None else round(played.in_time, 3),
            late_p95_s=round(at_share(late_s, 0.95), 3) if late_s else None,
            lease_waiting=self._lease_waiting,
        )


def at_share(ordered: tuple[float, ...], share: float) -> float:
    """Return the value that *share* of them don't exceed (nearest rank)."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
