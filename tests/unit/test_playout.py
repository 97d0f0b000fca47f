"""Sound is spread between the frames of its chunk."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.media import AudioClip
from gpu_node.playout import _slices


@given(samples=st.integers(1, 5000), parts=st.integers(1, 40))
def test_slices_are_even_and_lose_no_sample(samples: int, parts: int) -> None:
    """In order, differing by at most one sample."""
    pcm = np.arange(samples, dtype=np.int16).reshape(-1, 1)
    slices = _slices(AudioClip(pcm=pcm, rate_hz=48_000), parts)
    assert np.array_equal(np.concatenate([clip.pcm for clip in slices]), pcm)
    lengths = {len(clip.pcm) for clip in slices}
    assert max(lengths) - min(lengths) <= 1
    assert len(slices) <= parts


def test_no_sound_makes_no_slices() -> None:
    """Most chunks have none."""
    assert _slices(None, 4) == []
