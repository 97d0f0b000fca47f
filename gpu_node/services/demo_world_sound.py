"""What does the demo's player hear?

Quietly: a chord that belongs to the place and leans to one side while the player turns, wind that
rises with the pace, and a step with every stretch walked, left and right in turn. It's made for
exactly the time of the frames that it goes with; rounding is carried from chunk to chunk, so sound
and picture never drift apart. `demo_world.py` loads this file.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

RATE_HZ, CHANNELS = 48_000, 2
CHORDS_HZ = (
    (110.0, 164.8, 220.0),
    (98.0, 146.8, 233.1),
    (123.5, 185.0, 246.9),
    (87.3, 130.8, 207.7),
)
CHORD_VOLUME, WIND_VOLUME, STEP_VOLUME = 0.03, 0.05, 0.12
STRIDE_CELLS = 0.9
STEP_S = 0.09
LEAN = 0.7
SMOOTH = 48
"""Samples over which the wind's noise is averaged: what is left sounds soft."""


@dataclass(frozen=True, slots=True)
class Motion:
    """How the player moves during one chunk."""

    pace_cells_per_s: float
    turn_rad_per_s: float
    walked_cells: float
    """All the way so far."""


class Sound:
    """One session's sound; each call goes on where the last one ended."""

    def __init__(self, prompt: str) -> None:
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8])
        self._chord_hz = CHORDS_HZ[seed % len(CHORDS_HZ)]
        self._noise = np.random.default_rng(seed)
        self._samples = 0
        self._owed = 0.0
        """The part of a sample by which the sound is shorter than the picture so far."""
        self._steps = 0
        self._before = Motion(0.0, 0.0, 0.0)

    def next(self, duration_s: float, motion: Motion) -> bytes:
        """Return the next *duration_s* as little-endian PCM16, left and right in turn."""
        wanted = duration_s * RATE_HZ + self._owed
        count = int(wanted + 1e-6)
        self._owed = wanted - count
        part = np.linspace(0.0, 1.0, count, endpoint=False)
        pace = _glide(self._before.pace_cells_per_s, motion.pace_cells_per_s, part)
        lean = LEAN * np.tanh(_glide(self._before.turn_rad_per_s, motion.turn_rad_per_s, part))
        both = np.zeros((count, CHANNELS))
        chord = self._chord(count)
        both[:, 0] += chord * (1 - lean)
        both[:, 1] += chord * (1 + lean)
        both += (WIND_VOLUME * np.minimum(pace / 2.3, 1.0) * self._wind(count))[:, None]
        self._walk(both, motion.walked_cells)
        self._samples += count
        self._before = motion
        return (np.clip(both, -1.0, 1.0) * 32767).astype("<i2").tobytes()

    def _chord(self, count: int) -> Any:
        t = (self._samples + np.arange(count)) / RATE_HZ
        swell = 1 + 0.4 * np.sin(math.tau * 0.11 * t)
        tones = [np.sin(math.tau * hz * t) for hz in self._chord_hz]
        return CHORD_VOLUME * swell * sum(tones) / len(tones)

    def _wind(self, count: int) -> Any:
        noise = self._noise.standard_normal(count + SMOOTH - 1)
        sums = np.cumsum(np.concatenate(([0.0], noise)))
        return (sums[SMOOTH:] - sums[:-SMOOTH])[:count] / math.sqrt(SMOOTH)

    def _walk(self, both: Any, walked_cells: float) -> None:
        """Add the step that falls into this chunk, if one does."""
        steps = int(walked_cells / STRIDE_CELLS)
        if steps == self._steps:
            return
        self._steps = steps
        length = min(len(both), int(STEP_S * RATE_HZ))
        t = np.arange(length) / RATE_HZ
        thud = STEP_VOLUME * np.exp(-t * 60) * np.sin(math.tau * 72 * t)
        near = steps % CHANNELS
        both[:length, near] += thud
        both[:length, 1 - near] += 0.5 * thud


def _glide(start: float, end: float, part: Any) -> Any:
    """Go evenly from one value to the other: a jump would click."""
    return start + (end - start) * part
