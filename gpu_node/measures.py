"""How well does one session play right now?

Sums over the last second or so, read and begun anew by whoever tells them (``tf.metrics``).
Bounded: a few numbers, however fast a service is. The same observations go to the node's histograms
where they're made. Pure: times are handed in, monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

Figures = dict[str, object]


@dataclass(slots=True)
class _Spread:
    """Mean and maximum of what was observed."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.most = max(self.most, value)

    def figures(self) -> Figures | None:
        """None: nothing was observed."""
        if not self.count:
            return None
        return {"mean": round(self.total / self.count, 4), "max": round(self.most, 4)}


class Measures:
    """What was observed since the figures were last taken."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._chunk_s, self._wait_s, self._late_s = _Spread(), _Spread(), _Spread()
        self._lease_since_s: float | None = None
        self._lease_s = 0.0
        self._frames = 0
        self._declared_fps = 0.0
        self.frames_published = 0
        self.sound_queued_until_s = 0.0

    def chunk(self, *, made_in_s: float, waited_s: float, fps: float) -> None:
        """A chunk was taken from the service."""
        self._chunk_s.add(made_in_s)
        self._wait_s.add(waited_s)
        self._declared_fps = fps

    def frame(self, late_s: float) -> None:
        """A frame has left."""
        self._frames += 1
        self.frames_published += 1
        self._late_s.add(late_s)

    def stage(self, word: object, now_s: float) -> None:
        """The session's service told a stage; ``lease_*`` ones bound a wait for the model."""
        if word == "lease_queued" and self._lease_since_s is None:
            self._lease_since_s = now_s
        elif word == "lease_granted" and self._lease_since_s is not None:
            self._lease_s += now_s - self._lease_since_s
            self._lease_since_s = None

    def take(self, now_s: float) -> Figures:
        """Return the figures since the last call, and begin anew."""
        lasted_s = max(now_s - self._since_s, 1e-3)
        figures: Figures = {
            "over_s": round(lasted_s, 3),
            "fps": round(self._frames / lasted_s, 2),
            "declared_fps": self._declared_fps or None,
            "published_frames": self.frames_published,
            "chunk_s": self._chunk_s.figures(),
            "chunk_wait_s": self._wait_s.figures(),
            "lateness_s": self._late_s.figures(),
            "lease_wait_s": round(self._take_lease_s(now_s), 4),
            "sound_queued_s": round(max(0.0, self.sound_queued_until_s - now_s), 3),
        }
        self._since_s, self._frames = now_s, 0
        self._chunk_s, self._wait_s, self._late_s = _Spread(), _Spread(), _Spread()
        return figures

    def _take_lease_s(self, now_s: float) -> float:
        waited_s, self._lease_s = self._lease_s, 0.0
        if self._lease_since_s is not None:
            waited_s += now_s - self._lease_since_s
            self._lease_since_s = now_s
        return waited_s
