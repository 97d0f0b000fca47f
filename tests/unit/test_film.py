"""Pictures with sound that nobody has to compute: even rate, exact length, in step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from gpu_node.services import film

WIDTH, HEIGHT = 64, 48


def flashes_s(cuts: list[film.Cut]) -> list[float]:
    """Return at which times the picture turns white."""
    pictures = [frame for cut in cuts for frame in cut.frames]
    white = [frame.mean() > 200 for frame in pictures]
    fps = cuts[0].fps
    return [n / fps for n, now in enumerate(white) if now and not (n and white[n - 1])]


def beeps_s(cuts: list[film.Cut]) -> list[float]:
    """Return at which times a beep begins."""
    sound = np.concatenate([cut.sound for cut in cuts if cut.sound is not None])
    blocks = sound[: len(sound) // 480 * 480, 0].reshape(-1, 480).astype(float)
    loud = np.sqrt((blocks**2).mean(axis=1)) > 1000
    return [n / 100 for n, now in enumerate(loud) if now and not (n and loud[n - 1])]


def write_film(
    path: Path, cuts: Iterator[film.Cut], *, fps: int = 24, sound_s: float | None = None
) -> Path:
    """Encode cuts as a file."""
    with av.open(str(path), "w") as container:
        video = container.add_stream(
            "mpeg4", rate=fps, width=WIDTH, height=HEIGHT, pix_fmt="yuv420p"
        )
        audio = container.add_stream("aac", rate=film.RATE_HZ, layout="stereo")
        place = 0
        for number, cut in enumerate(cuts):
            for step, picture in enumerate(cut.frames):
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts, frame.time_base = number * film.CUT_FRAMES + step, Fraction(1, fps)
                container.mux(video.encode(frame))
            if cut.sound is None or (sound_s is not None and place > sound_s * film.RATE_HZ):
                continue
            packed = np.ascontiguousarray(cut.sound.reshape(1, -1))
            heard = av.AudioFrame.from_ndarray(packed, format="s16", layout="stereo")
            heard.sample_rate, heard.pts = film.RATE_HZ, place
            heard.time_base = Fraction(1, film.RATE_HZ)
            place += len(cut.sound)
            container.mux(audio.encode(heard))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


def pattern(seconds: float, fps: int = 24) -> Iterator[film.Cut]:
    """A small pattern."""
    return film.pattern(fps=fps, width=WIDTH, height=HEIGHT, seconds=seconds)


@pytest.mark.parametrize("fps", [7, 24, 30])
def test_the_pattern_flashes_when_it_beeps(fps: int) -> None:
    """Once a second, and its sound is exactly as long as its pictures."""
    cuts = list(pattern(5, fps))
    assert flashes_s(cuts) == pytest.approx([0, 1, 2, 3, 4], abs=1 / fps)
    assert beeps_s(cuts) == pytest.approx([0, 1, 2, 3, 4], abs=0.02)
    assert sum(len(cut.sound) for cut in cuts if cut.sound is not None) == 5 * film.RATE_HZ


def test_the_pattern_has_no_end_of_its_own() -> None:
    """Whoever shows it says when it's over."""
    cuts = film.pattern(width=WIDTH, height=HEIGHT)
    assert len(list(itertools.islice(cuts, 50))) == 50


def test_a_file_is_shown_in_step(tmp_path: Path) -> None:
    """What was written flash by beep comes out flash by beep."""
    path = write_film(tmp_path / "film.mp4", pattern(4))
    cuts = list(film.video_file(path))
    assert {cut.fps for cut in cuts} == {24.0}
    assert sum(len(cut.frames) for cut in cuts) == 4 * 24
    flashes, beeps = flashes_s(cuts), beeps_s(cuts)
    assert flashes == pytest.approx([0, 1, 2, 3], abs=0.05)
    assert beeps[:4] == pytest.approx(flashes, abs=0.04)


def test_a_file_that_falls_silent_early_goes_on_without_sound(tmp_path: Path) -> None:
    """Its pictures don't pile up; what can't be heard is silence of the right length."""
    path = write_film(tmp_path / "film.mp4", pattern(10), sound_s=1)
    cuts = list(film.video_file(path))
    assert sum(len(cut.frames) for cut in cuts) == 10 * 24
    heard = sum(len(cut.sound) for cut in cuts if cut.sound is not None)
    assert heard == pytest.approx(10 * film.RATE_HZ, abs=2)


def test_a_film_can_go_round(tmp_path: Path) -> None:
    """After its end it begins anew."""
    path = write_film(tmp_path / "film.mp4", pattern(1))
    cuts = list(itertools.islice(film.video_file(path, loop=True), 8))
    assert len(flashes_s(cuts)) >= 2


def test_what_is_no_film_is_told_in_one_sentence(tmp_path: Path) -> None:
    """A text, a file that isn't there, sound alone."""
    text = tmp_path / "film.mp4"
    text.write_text("no film")
    with pytest.raises(ValueError, match=r"film\.mp4 can't be decoded"):
        next(film.video_file(text))
    with pytest.raises(ValueError, match="can't be decoded"):
        next(film.video_file(tmp_path / "nowhere.mp4"))
    silent = tmp_path / "song.wav"
    with av.open(str(silent), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(ValueError, match="has no pictures"):
        next(film.video_file(silent))
