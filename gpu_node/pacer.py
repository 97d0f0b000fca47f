"""When does each picture and each bit of sound leave, so that they stay together?

A chunk's pictures and its sound begin together: that is what a service means by putting them into
one chunk. Pictures leave by a next-frame clock, each due one interval after the one before it was
due, so small delays don't add up. Sound leaves a little ahead of its time, for the media server's
queue plays it at its own steady speed and shall not run dry between two pieces; the pacer knows
when the queue will be played out, and so at which moment each sample will be heard.

Real services disagree with themselves: sound is cut in codec blocks and doesn't match the pictures'
length, a frame rate of 30 means 29.97, a chunk comes late. Four rules keep both together:

- A picture late by more than one interval starts the clock again from now: the lost time is lost,
  and no burst makes up for it.
- Sound and picture apart by no more than a tolerance are left alone, but the pictures of the next
  chunk are shown up to two per cent shorter or longer, which nobody sees; stretched sound is heard.
- Sound that would be heard later than that makes the pictures wait for it; nothing is dropped.
- Sound that would be heard earlier than that waits behind as much silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SOUND_AHEAD_S = 0.1
"""So much sound is queued before it's due: a loop that is slower than that makes a gap."""
_GRAIN_S = 0.05
"""Sound leaves in pieces of this length at least, to save calls."""
TOLERANCE_S = 0.03
"""Below what people notice (ITU-R BT.1359: 45 ms), above the jitter of codec blocks (21 ms)."""
MOST_STRETCH = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPicture:
    """Show this picture of the chunk now."""

    place: int
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSound:
    """Queue so many samples of silence now, and these samples of the chunk's sound after it."""

    silence: int
    start: int
    end: int


Step = ShowPicture | QueueSound


class Pacer:
    """The clock of one session's media. Pure: the time now is handed in, monotonic seconds."""

    def __init__(self) -> None:
        self._begin_s: float | None = None
        """When the present chunk begins to be shown; between two chunks, the next one."""
        self._queue_ends_s = -math.inf
        """When the sound that was queued so far will have been heard."""
        self._interval_s = 0.0
        self._stretch = 1.0
        """How much longer than they should the pictures of this chunk are shown."""
        self._slipped_s = 0.0
        """By how much the clock was started again since the last picture."""
        self._pictures = self._shown = 0
        self._samples = self._queued = 0
        self._rate_hz = 1

    def begin(
        self, now_s: float, *, pictures: int, fps: float, samples: int = 0, rate_hz: int = 1
    ) -> None:
        """Take the next chunk; the one before it was taken step by step to its end."""
        begin_s = self._start_s(now_s, has_sound=samples > 0)
        off_s = max(self._queue_ends_s, now_s) - begin_s
        self._interval_s, self._stretch = 1.0 / fps, 1.0
        if samples and pictures and abs(off_s) <= TOLERANCE_S:
            share = off_s / (pictures * self._interval_s)
            self._stretch += min(max(share, -MOST_STRETCH), MOST_STRETCH)
            self._interval_s *= self._stretch
        self._begin_s = begin_s
        self._pictures, self._shown = pictures, 0
        self._samples, self._queued, self._rate_hz = samples, 0, rate_hz

    def due_s(self) -> float | None:
        """Return when the next step is to be taken; None when the chunk has no more."""
        due_s = min(self._picture_due_s(), self._sound_due_s())
        if due_s < math.inf:
            return due_s
        self._close()
        return None

    def take(self, now_s: float) -> Step:
        """Take the step that is due; to be done at once. Only after `due_s` has named one."""
        late_s = now_s - self._picture_due_s()
        if late_s > self._interval_s:  # the clock is out of date, for the sound as well
            self._slip(late_s)
            self._slipped_s += late_s
        if self._picture_due_s() <= self._sound_due_s():
            return self._show(now_s)
        return self._queue(now_s)

    def restart(self, now_s: float) -> None:
        """Go on from now, as after a silence; what sound was queued is gone."""
        self._queue_ends_s = -math.inf
        next_s = min(self._picture_due_s(), self._heard_s())
        self._begin_s = now_s if next_s == math.inf else self._begin() + now_s - next_s

    @property
    def queued_until_s(self) -> float:
        """When the queued sound will have been heard."""
        return self._queue_ends_s

    def _start_s(self, now_s: float, *, has_sound: bool) -> float:
        begin_s = self._begin_s
        if begin_s is None:
            return now_s
        if self._queue_ends_s > begin_s + TOLERANCE_S:
            begin_s = self._queue_ends_s  # the sound of the chunk before goes on beyond its end
        allowed_s = min(self._interval_s, TOLERANCE_S) if has_sound else self._interval_s
        return now_s if now_s - begin_s > allowed_s else begin_s

    def _show(self, now_s: float) -> ShowPicture:
        late_s = max(0.0, now_s - self._picture_due_s()) + self._slipped_s
        self._slipped_s = 0.0
        self._shown += 1
        return ShowPicture(place=self._shown - 1, late_s=late_s)

    def _queue(self, now_s: float) -> QueueSound:
        heard_s = max(self._queue_ends_s, now_s)
        early_s = self._heard_s() - heard_s
        silence = 0
        if early_s < -TOLERANCE_S:
            self._slip(-early_s)
        elif early_s > TOLERANCE_S:
            silence = round(early_s * self._rate_hz)
        wanted_s = now_s + SOUND_AHEAD_S + _GRAIN_S - heard_s - silence / self._rate_hz
        wanted = math.ceil(max(wanted_s, _GRAIN_S) * self._rate_hz)
        start, self._queued = self._queued, min(self._samples, self._queued + wanted)
        self._queue_ends_s = heard_s + (silence + self._queued - start) / self._rate_hz
        return QueueSound(silence=silence, start=start, end=self._queued)

    def _picture_due_s(self) -> float:
        if self._shown == self._pictures:
            return math.inf
        return self._begin() + self._shown * self._interval_s

    def _sound_due_s(self) -> float:
        return self._heard_s() - SOUND_AHEAD_S

    def _heard_s(self) -> float:
        """When the next sample should be heard."""
        if self._queued == self._samples:
            return math.inf
        return self._begin() + self._queued / self._rate_hz * self._stretch

    def _slip(self, by_s: float) -> None:
        self._begin_s = self._begin() + by_s

    def _begin(self) -> float:
        return 0.0 if self._begin_s is None else self._begin_s

    def _close(self) -> None:
        """The chunk is through: the next one begins where its pictures end."""
        self._slip(self._pictures * self._interval_s)
        self._pictures = self._shown = self._samples = self._queued = 0
