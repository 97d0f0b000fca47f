"""Where do pictures with sound come from that nobody has to compute?

From a video file, decoded with PyAV, or from a test pattern: a bar that sweeps, and once a second a
white picture together with a beep, so that ears and eyes notice when sound and picture drift apart.
Both are endless or finite iterators of `Cut`: a few pictures at an even rate and exactly the sound
of their time. Everything here blocks, so services call it in a thread.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
"""Height x width x 3, RGB."""
Samples = npt.NDArray[np.int16]
"""Moments x 2, left and right."""

RATE_HZ, CHANNELS = 48_000, 2
CUT_FRAMES = 8
MAX_FPS = 60
BEEP_HZ, BEEP_S, BEEP_VOLUME = 1000, 0.1, 0.2
_MOST_PICTURES = 16 * CUT_FRAMES
"""Decoded and waiting for their sound."""
_BAR = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Some pictures in a row, and their sound if there is any."""

    fps: float
    frames: tuple[Picture, ...]
    sound: Samples | None

    @property
    def duration_s(self) -> float:
        """How long the pictures are shown."""
        return len(self.frames) / self.fps


def pattern(
    *, fps: int = 24, width: int = 640, height: int = 360, seconds: float | None = None
) -> Iterator[Cut]:
    """Return the pattern, for ever without *seconds*."""
    backdrop = _backdrop(width, height)
    numbers: Iterator[int] = itertools.count()
    if seconds is not None:
        numbers = iter(range(round(seconds * fps)))
    while batch := tuple(itertools.islice(numbers, CUT_FRAMES)):
        yield Cut(
            fps=fps,
            frames=tuple(_pattern_at(number, fps, backdrop) for number in batch),
            sound=_beeps(_moment(batch[0], fps), _moment(batch[-1] + 1, fps)),
        )


def video_file(path: Path, *, loop: bool = False) -> Iterator[Cut]:
    """Return what is in a file, again and again with *loop*.

    Pictures come at the file's average rate, whatever the distances between its own are.

    Raises:
        ValueError: The file has no picture that could be decoded.
        OSError: It can't be read.
    """
    while True:
        had_pictures = False
        for cut in _once(path):
            had_pictures = True
            yield cut
        if not had_pictures:
            raise ValueError(f"{path.name} has no picture that could be decoded")
        if not loop:
            return


def _once(path: Path) -> Iterator[Cut]:
    import av  # only for files: the pattern needs no codec  # noqa: PLC0415

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise ValueError(f"{path.name} has no pictures")
            yield from _Cutter(container).cuts()
    except av.FFmpegError as error:
        raise ValueError(f"{path.name} can't be decoded: {error}") from error


class _Cutter:
    """Puts the decoded pictures and samples of one file into cuts of even rate."""

    def __init__(self, container: Any) -> None:
        import av  # noqa: PLC0415

        self._container = container
        self._video = container.streams.video[0]
        self._video.thread_type = "AUTO"
        self._audio = next(iter(container.streams.audio), None)
        rate = self._video.average_rate or Fraction(24)
        self._rate = min(Fraction(rate), Fraction(MAX_FPS))
        self._resampler = av.AudioResampler("s16", "stereo", RATE_HZ)
        self._start_s: float | None = None
        self._shown: Picture | None = None
        self._pictures: deque[Picture] = deque()
        self._laid = 0
        """Pictures so far, also those that were cut off already."""
        self._samples: list[Samples] = []
        self._held = 0
        self._cut = 0
        """Pictures in cuts so far."""

    def cuts(self) -> Iterator[Cut]:
        """Yield cuts as soon as their pictures and their sound are decoded."""
        streams = [self._video, self._audio] if self._audio is not None else [self._video]
        for packet in self._container.demux(*streams):
            for frame in packet.decode():
                if packet.stream is self._video:
                    self._lay(frame)
                else:
                    self._hear(frame)
            while len(self._pictures) >= CUT_FRAMES and self._is_heard_until(CUT_FRAMES):
                yield self._take(CUT_FRAMES)
        if self._audio is not None:
            self._hear(None)
        while self._pictures:
            yield self._take(min(CUT_FRAMES, len(self._pictures)))

    def _lay(self, frame: Any) -> None:
        """Show the picture from its own time on: gaps repeat the one before, crowds lose some."""
        picture = frame.to_ndarray(format="rgb24")
        at_s = frame.time or 0.0
        if self._start_s is None:
            self._start_s = at_s
        place = max(0, round((at_s - self._start_s) * self._rate))
        while self._laid < place and self._shown is not None:
            self._pictures.append(self._shown)
            self._laid += 1
        if self._laid <= place:
            self._pictures.append(picture)
            self._laid += 1
        self._shown = picture

    def _hear(self, frame: Any) -> None:
        for part in self._resampler.resample(frame):
            samples = part.to_ndarray().reshape(-1, CHANNELS).astype(np.int16)
            self._samples.append(samples)
            self._held += len(samples)

    def _is_heard_until(self, pictures: int) -> bool:
        """Whether their sound is there, or won't come any more: a file may fall silent early."""
        if self._audio is None or len(self._pictures) >= _MOST_PICTURES:
            return True
        return self._held >= self._length(pictures)

    def _length(self, pictures: int) -> int:
        return _moment(self._cut + pictures, self._rate) - _moment(self._cut, self._rate)

    def _take(self, pictures: int) -> Cut:
        frames = tuple(self._pictures.popleft() for _ in range(pictures))
        sound = self._take_sound(self._length(pictures)) if self._audio is not None else None
        self._cut += pictures
        return Cut(fps=float(self._rate), frames=frames, sound=sound)

    def _take_sound(self, count: int) -> Samples:
        """The next *count* samples; silence where the file has fewer."""
        heard = np.concatenate(
            [*self._samples, np.zeros((max(0, count - self._held), 2), np.int16)]
        )
        self._samples = [heard[count:]]
        self._held = len(heard) - count
        return heard[:count]


def _moment(number: int, fps: float | Fraction) -> int:
    """The first sample of a picture; rounding never adds up."""
    return int(number * RATE_HZ / fps)


def _backdrop(width: int, height: int) -> Picture:
    """Eight colours side by side over a grey ramp."""
    colours = np.array(list(itertools.product((16, 235), repeat=3))[::-1], np.uint8)
    bars = colours[np.arange(width) * len(colours) // width]
    picture = np.repeat(bars[None], height, axis=0)
    ramp = np.linspace(0, 255, width).astype(np.uint8)
    picture[height * 4 // 5 :] = ramp[None, :, None]
    return picture


def _pattern_at(number: int, fps: int, backdrop: Picture) -> Picture:
    if number % fps == 0:
        return np.full_like(backdrop, 255)
    picture = backdrop.copy()
    left = number * 5 % max(1, backdrop.shape[1] - _BAR)
    picture[:, left : left + _BAR] = 255 - picture[:, left : left + _BAR]
    return picture


def _beeps(start: int, end: int) -> Samples:
    """A tone at the beginning of each second, silence otherwise."""
    at = np.arange(start, end) % RATE_HZ / RATE_HZ
    tone = np.where(at < BEEP_S, np.sin(2 * np.pi * BEEP_HZ * at), 0.0) * BEEP_VOLUME
    return np.repeat((tone * 32767).astype(np.int16)[:, None], CHANNELS, axis=1)
