"""What does a node know of its last half minute?"""

from __future__ import annotations

import pytest

from gpu_node.recent_play import WINDOW_S, RecentPlay, at_share
from shared.play_facts import PlayFacts
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is moved by hand."""
    return ManualClock()


@pytest.fixture
def play(clock: ManualClock) -> RecentPlay:
    """A node that has played nothing yet."""
    return RecentPlay(clock.monotonic_s)


def frames(play: RecentPlay, clock: ManualClock, seconds: int, **fps: int) -> None:
    """Let sessions play for so long, each at its own rate, every frame 10 ms late."""
    for _ in range(seconds):
        for session, count in fps.items():
            for _ in range(count):
                play.frame(session, 0.01)
        clock.move(1)


def test_each_session_has_a_rate_of_its_own(play: RecentPlay, clock: ManualClock) -> None:
    """The slowest first; all together is their sum."""
    frames(play, clock, 10, alice=16, bob=8)
    played = play.played()
    assert played.session_fps == (8.0, 16.0)
    assert played.fps == 24.0
    assert played.late_s == (0.01,) * 240


def test_what_is_older_than_the_window_is_forgotten(play: RecentPlay, clock: ManualClock) -> None:
    """A session that stopped to play isn't a slow one; it is none."""
    frames(play, clock, 5, alice=16)
    play.chunk(0.4, in_time=True)
    clock.move(WINDOW_S + 6)
    played = play.played()
    assert (played.session_fps, played.chunk_s, played.late_s) == ((), (), ())
    assert played.in_time is None
    assert play._frames == {}
    assert play.facts() == PlayFacts()


def test_a_session_that_left_no_longer_counts(play: RecentPlay, clock: ManualClock) -> None:
    """However little it showed just before: whoever looks sees those that play."""
    frames(play, clock, 1, ended=1, lively=16)
    frames(play, clock, 9, lively=16)
    play.left("ended")
    play.left("never here")
    facts = play.facts()
    assert (facts.playing, facts.fps_min) == (1, 16.0)


def test_a_session_that_has_just_begun_isn_t_slow(play: RecentPlay, clock: ManualClock) -> None:
    """Its rate counts from its first frame on."""
    clock.move(20)
    frames(play, clock, 2, alice=16)
    assert play.played().session_fps == (16.0,)


def test_the_registry_is_told_a_few_numbers(play: RecentPlay, clock: ManualClock) -> None:
    """Of all that was played."""
    for made_in_s in (0.1, 0.2, 0.3, 0.9):
        play.chunk(made_in_s, in_time=made_in_s < 0.5)
    frames(play, clock, 4, alice=16, bob=8)
    assert play.facts() == PlayFacts(
        playing=2, fps=12.0, fps_min=8.0, chunk_p95_s=0.9, in_time=0.75, late_p95_s=0.01
    )


def test_who_waits_for_a_turn_is_told(play: RecentPlay, clock: ManualClock) -> None:
    """As the service said last; nothing where sessions don't take turns."""
    frames(play, clock, 2, a=16)
    assert play.facts().lease_waiting is None
    play.lease(waiting=2)
    assert play.facts().lease_waiting == 2


def test_it_is_bounded_however_much_is_played(play: RecentPlay, clock: ManualClock) -> None:
    """Seconds of a session, chunks and frames are each kept up to a number."""
    for _ in range(200):
        play.chunk(0.1, in_time=True)
        play.chunk(0.1, in_time=True)
    frames(play, clock, 100, alice=20)
    assert len(play._frames["alice"]) <= WINDOW_S + 1
    assert len(play._chunks) == 256
    assert len(play._late) == 1024


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.95, 4.0), (1.0, 4.0)])
def test_a_share_is_a_rank(share: float, value: float) -> None:
    """The nearest one that is there."""
    assert at_share((1.0, 2.0, 3.0, 4.0), share) == value
