"""The demo world is heard: as long as its picture, answering to movement, never loud."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpu_node.services.demo_world import sound

STILL = sound.Motion(0.0, 0.0, 0.0)
FASTEST = sound.Motion(2.3, 0.0, 0.0)


def heard(of: object, duration_s: float, motion: object) -> np.ndarray:
    """Return the next samples, one row per moment, from -1 to 1."""
    raw = of.next(duration_s, motion)  # type: ignore[attr-defined]
    return np.frombuffer(raw, "<i2").reshape(-1, sound.CHANNELS) / 32767


def loudness(samples: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt((samples**2).mean()))


@pytest.mark.parametrize("fps", [7, 23.976])
def test_sound_stays_exactly_as_long_as_the_picture(fps: float) -> None:
    """What one chunk is too short by, the next one gets: never a whole sample apart."""
    world, chunk_s, samples = sound.Sound("a town"), 4 / fps, 0
    for number in range(1, int(20 / chunk_s)):
        samples += len(world.next(chunk_s, STILL)) // (2 * sound.CHANNELS)
        assert abs(samples - number * chunk_s * sound.RATE_HZ) <= 1


def test_who_walks_hears_more_than_who_stands() -> None:
    """Wind rises with the pace."""
    world = sound.Sound("a town")
    heard(world, 0.25, STILL)
    standing = loudness(heard(world, 0.25, STILL))
    heard(world, 0.25, FASTEST)
    assert loudness(heard(world, 0.25, FASTEST)) > 1.5 * standing


def test_each_stretch_walked_is_a_step_on_the_other_side() -> None:
    """Left and right in turn."""
    world, louder = sound.Sound("a town"), []
    for steps in range(1, 5):
        walked = sound.Motion(0.0, 0.0, steps * sound.STRIDE_CELLS + 0.01)
        samples = heard(world, 0.25, walked)
        louder.append(loudness(samples[:, 0]) > loudness(samples[:, 1]))
    assert louder in ([True, False] * 2, [False, True] * 2)


def test_a_turn_moves_the_sound_to_one_side() -> None:
    """And a turn the other way to the other."""
    for turn, side in ((1.8, 1), (-1.8, 0)):
        world, motion = sound.Sound("a town"), sound.Motion(0.0, turn, 0.0)
        heard(world, 0.25, motion)
        samples = heard(world, 0.25, motion)
        assert loudness(samples[:, side]) > 2 * loudness(samples[:, 1 - side])


def test_chunks_follow_each_other_without_a_click() -> None:
    """No jump between two chunks is larger than those within."""
    world = sound.Sound("a town")
    chunks = [heard(world, 0.1, STILL) for _ in range(20)]
    within = max(float(np.abs(np.diff(chunk, axis=0)).max()) for chunk in chunks)
    seams = [float(np.abs(b[0] - a[-1]).max()) for a, b in itertools.pairwise(chunks)]
    assert max(seams) <= 1.1 * within


def test_it_stays_quiet_whatever_happens() -> None:
    """Well below what a talking voice has."""
    world = sound.Sound("a storm")
    samples = [heard(world, 0.25, sound.Motion(2.3, 1.8, n * 0.6)) for n in range(40)]
    assert loudness(np.concatenate(samples)) < 0.1
    assert np.abs(np.concatenate(samples)).max() < 0.6


def test_places_sound_different() -> None:
    """The same prompt always sounds the same."""
    town, same, palace = (
        heard(sound.Sound(p), 0.25, STILL) for p in ("a town", "a town", "a palace")
    )
    assert np.array_equal(town, same)
    assert not np.array_equal(town, palace)
