"""When does each picture and each bit of sound leave?"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.pacer import MOST_STRETCH, SOUND_AHEAD_S, Pacer, QueueSound, ShowPicture

RATE_HZ = 48_000
SKEW_S = 0.040
"""The promise."""
QUEUE_S = 0.2
"""What the media server's queue takes without making us wait."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """One chunk of a service, and how long after the player asked for it it came."""

    pictures: int = 0
    fps: float = 16.0
    samples: int = 0
    rate_hz: int = RATE_HZ
    after_s: float = 0.0


@dataclass
class Theatre:
    """Plays chunks with a hand-moved clock; knows what is heard and seen, and when."""

    now_s: float = 100.0
    delays: Iterator[float] = field(default_factory=lambda: iter(()))
    """How much later than due the loop takes each step."""
    pacer: Pacer = field(default_factory=Pacer)
    seen_s: list[float] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)
    skews_s: list[float] = field(default_factory=list)
    queued_s: list[float] = field(default_factory=list)
    heard_samples: int = 0
    silence_s: float = 0.0
    _ends_s: float = -math.inf
    _first_picture_s: float = 0.0
    _sound: list[tuple[float, float, float]] = field(default_factory=list)
    """This chunk's pieces: heard from, of the chunk's second, for so many seconds."""

    def play(self, chunks: Iterable[Made]) -> None:
        for chunk in chunks:
            self.now_s += chunk.after_s
            self.pacer.begin(
                self.now_s,
                pictures=chunk.pictures,
                fps=chunk.fps,
                samples=chunk.samples,
                rate_hz=chunk.rate_hz,
            )
            self._play_chunk(chunk)

    def _play_chunk(self, chunk: Made) -> None:
        self._sound = []
        pictures: list[tuple[float, float]] = []
        while (due_s := self.pacer.due_s()) is not None:
            self.now_s = max(self.now_s, due_s) + next(self.delays, 0.0)
            match self.pacer.take(self.now_s):
                case ShowPicture(place=place):
                    self.seen_s.append(self.now_s)
                    self.due_s.append(due_s)
                    pictures.append((self.now_s, place / chunk.fps))
                case QueueSound() as step:
                    self._hear(step, chunk.rate_hz)
        assert sum(round(length * chunk.rate_hz) for _, _, length in self._sound) == chunk.samples
        assert len(pictures) == chunk.pictures
        for at_s, media_s in pictures:
            self._compare(at_s, media_s)

    def _hear(self, step: QueueSound, rate_hz: int) -> None:
        begins_s = max(self._ends_s, self.now_s) + step.silence / rate_hz
        length_s = (step.end - step.start) / rate_hz
        self._sound.append((begins_s, step.start / rate_hz, length_s))
        self._ends_s = begins_s + length_s
        self.queued_s.append(self._ends_s - self.now_s)
        self.heard_samples += step.end - step.start
        self.silence_s += step.silence / rate_hz

    def _compare(self, at_s: float, media_s: float) -> None:
        """How far is the sound that is heard with this picture from the one that belongs to it?"""
        for begins_s, start_s, length_s in self._sound:
            if start_s <= media_s < start_s + length_s:
                self.skews_s.append(at_s - (begins_s + media_s - start_s))

    @property
    def worst_skew_s(self) -> float:
        return max((abs(skew_s) for skew_s in self.skews_s), default=0.0)


def silent(count: int, fps: float = 10.0, after_s: float = 0.0) -> Made:
    """A chunk without sound."""
    return Made(pictures=count, fps=fps, after_s=after_s)


def test_small_delays_dont_add_up() -> None:
    """Each picture is due one interval after the one before was due, not after it left."""
    theatre = Theatre(delays=iter([0.03 * (index % 3) for index in range(30)]))
    theatre.play([silent(3)] * 10)
    assert theatre.due_s == pytest.approx([100 + index * 0.1 for index in range(30)])


def test_a_picture_late_by_more_than_an_interval_starts_the_clock_again() -> None:
    """The lost time is lost: no burst makes up for it."""
    theatre = Theatre()
    theatre.play([silent(2), silent(2, after_s=0.19), silent(2, after_s=1.0)])
    assert theatre.seen_s == pytest.approx([100, 100.1, 100.29, 100.3, 101.3, 101.4])


def test_a_stall_in_the_middle_of_a_chunk_starts_the_clock_again_too() -> None:
    """Whatever stood still: the pictures after it keep their distance."""
    theatre = Theatre(delays=iter([0.0, 0.0, 0.7]))
    theatre.play([silent(5)])
    assert theatre.seen_s == pytest.approx([100, 100.1, 100.9, 101.0, 101.1])


def test_a_restart_forgets_the_clock() -> None:
    """After a silence the next picture leaves when it comes."""
    pacer = Pacer()
    pacer.begin(0.0, pictures=2, fps=10)
    pacer.due_s()
    pacer.take(0.0)
    pacer.restart(0.01)
    assert pacer.due_s() == pytest.approx(0.01)


def test_sound_and_picture_of_a_chunk_begin_together() -> None:
    """And the sound is queued a little ahead, never more than the media server takes."""
    theatre = Theatre()
    theatre.play([Made(pictures=12, samples=36_000)] * 20)
    assert theatre.worst_skew_s < 1e-6
    assert theatre.silence_s == 0
    assert SOUND_AHEAD_S <= max(theatre.queued_s) < QUEUE_S


def test_a_picture_waits_for_sound_that_is_longer() -> None:
    """One still picture with two seconds of speech is shown for two seconds."""
    theatre = Theatre()
    theatre.play([Made(pictures=1, samples=2 * RATE_HZ), silent(1)])
    assert theatre.seen_s == pytest.approx([100, 102])


def test_sound_without_pictures_plays_while_the_last_picture_stands() -> None:
    """Pieces of any length follow each other without a gap."""
    theatre = Theatre()
    theatre.play([silent(1), *[Made(samples=9600)] * 10, silent(1)])
    assert theatre.seen_s == pytest.approx([100, 102.1], abs=0.03)
    assert theatre.silence_s == pytest.approx(0.1)  # while the first picture has its time


def test_after_sound_that_is_shorter_comes_silence() -> None:
    """The next chunk's sound isn't heard before its pictures."""
    theatre = Theatre()
    theatre.play([Made(pictures=16, samples=RATE_HZ // 2)] * 3)
    assert theatre.worst_skew_s < 1e-6
    assert theatre.seen_s[-1] == pytest.approx(100 + 47 / 16)


@pytest.mark.parametrize("fps", [15.0, 16.0, 24.0, 30.0])
@pytest.mark.parametrize("true_fps", [0.999, 1.001, 0.99, 1.01])
def test_a_wrong_frame_rate_is_followed_without_a_gap(fps: float, true_fps: float) -> None:
    """29.97 called 30: for ten minutes the pictures follow the sound, nobody hears anything."""
    theatre, pictures = Theatre(), 12
    samples = round(pictures / (fps * true_fps) * RATE_HZ)
    theatre.play([Made(pictures=pictures, fps=fps, samples=samples)] * round(600 * fps / pictures))
    assert theatre.now_s > 690
    assert theatre.worst_skew_s <= SKEW_S
    assert theatre.silence_s == 0


def test_codec_blocks_are_played_without_a_gap() -> None:
    """AAC comes in blocks of 1024 samples, which never match the pictures' length."""

    def chunks() -> Iterator[Made]:
        sent = 0
        for index in range(1, 801):
            blocks = round(index * 0.75 * RATE_HZ / 1024)
            yield Made(pictures=12, samples=(blocks - sent) * 1024)
            sent = blocks

    theatre = Theatre()
    theatre.play(chunks())
    assert theatre.worst_skew_s <= SKEW_S
    assert theatre.silence_s == 0
    assert theatre.now_s == pytest.approx(700, abs=1)


def ten_minutes(seed: int) -> tuple[Theatre, int]:
    """Ten minutes of a service that does everything a little wrong, on a loop with small delays."""
    chance = random.Random(seed)
    fps, rate_hz = chance.choice([8, 12.5, 16, 24, 30, 60]), chance.choice([16_000, 44_100, 48_000])
    drift = chance.uniform(0.97, 1.03)
    theatre, played_s, samples = Theatre(), 0.0, 0
    theatre.delays = iter(lambda: chance.choice([0.0, 0.0, 0.001, 0.004]), None)

    def chunks() -> Iterator[Made]:
        nonlocal played_s, samples
        while played_s < 600:
            pictures = chance.randrange(1, 25)
            length_s = pictures / fps
            sound_s = max(0.0, length_s * drift + chance.uniform(-0.02, 0.02))
            made = Made(
                pictures=pictures,
                fps=fps,
                samples=round(sound_s * rate_hz),
                rate_hz=rate_hz,
                after_s=chance.choice([0, 0, 0, 0.02, 0.3]) * chance.random(),
            )
            played_s, samples = played_s + length_s, samples + made.samples
            yield made

    theatre.play(chunks())
    return theatre, samples


@pytest.mark.parametrize("seed", range(12))
def test_sound_and_picture_stay_within_40_ms_for_ten_minutes(seed: int) -> None:
    """Drift, ragged lengths, late chunks, a busy loop: no sample is lost and no queue grows."""
    theatre, samples = ten_minutes(seed)
    assert theatre.worst_skew_s <= SKEW_S
    assert max(theatre.queued_s) <= QUEUE_S
    assert theatre.heard_samples == samples


@pytest.mark.parametrize("stall_s", [0.05, 0.3, 2.0, 30.0])
def test_no_burst_follows_a_stall(stall_s: float) -> None:
    """Of the service or of the loop: pictures keep their distance, sound isn't heaped up."""
    theatre = Theatre()
    chunk = Made(pictures=12, samples=36_000)
    theatre.play([chunk] * 2)
    theatre.now_s += stall_s
    theatre.delays = iter([0.0] * 30 + [stall_s])
    theatre.play([chunk] * 4)
    gaps_s = [later - sooner for sooner, later in pairwise(theatre.seen_s)]
    late = [gap_s for gap_s in gaps_s if gap_s < (1 - MOST_STRETCH) / 16 - 1e-9]
    assert len(late) <= (2 if stall_s < 1 / 16 else 0)  # below an interval the clock goes on
    assert max(theatre.queued_s) <= QUEUE_S
    apart = [skew_s for skew_s in theatre.skews_s if abs(skew_s) > SKEW_S]
    assert len(apart) <= 4  # those whose sound was in the queue already when the loop stood still


STEPS = st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(1.0, 120.0)), min_size=2, max_size=60)


@given(STEPS)
@settings(max_examples=60)
def test_pictures_are_at_least_their_interval_apart(steps: list[tuple[float, float]]) -> None:
    """Due times never crowd: a picture is shown as long as its fps says."""
    theatre = Theatre()
    theatre.play([silent(1, fps, delay_s) for delay_s, fps in steps])
    for (due_s, next_due_s), (_, fps) in zip(pairwise(theatre.due_s), steps, strict=False):
        assert next_due_s >= due_s + 1 / fps - 1e-9


@given(STEPS)
@settings(max_examples=60)
def test_the_clock_is_never_further_behind_than_one_interval(
    steps: list[tuple[float, float]],
) -> None:
    """So at most one picture follows another at once."""
    theatre = Theatre()
    theatre.play([silent(1, fps, delay_s) for delay_s, fps in steps])
    for due_s, seen_s, (_, fps) in zip(theatre.due_s[1:], theatre.seen_s[1:], steps, strict=False):
        assert seen_s - due_s <= 1 / fps + 1e-9


CHUNKS = st.lists(
    st.builds(
        Made,
        pictures=st.integers(0, 12),
        fps=st.floats(5.0, 60.0),
        samples=st.integers(0, 40_000),
        rate_hz=st.sampled_from([8000, 44_100, 48_000]),
        after_s=st.floats(0.0, 1.0),
    ),
    max_size=12,
)


@given(CHUNKS)
@settings(max_examples=80)
def test_whatever_comes_is_played_whole_and_the_queue_stays_short(chunks: list[Made]) -> None:
    """Every picture and sample once, in order; the media server never makes us wait."""
    theatre = Theatre()
    theatre.play(chunks)
    assert max(theatre.queued_s, default=0.0) <= QUEUE_S
    assert theatre.worst_skew_s <= SKEW_S
