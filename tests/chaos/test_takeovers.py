"""Do the judges of the run with real rooms see what they are there for?"""

from __future__ import annotations

from scripts.chaos_run.live.takeovers import ghosts, takeover
from scripts.chaos_run.live.watcher import Arrival
from shared.events import Event

SID = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
OLD, NEW = (1_000, 1), (4_000, 1)


def frames(*seen: tuple[float, str, tuple[int, int]]) -> list[Arrival]:
    """Frames as they arrived."""
    return [Arrival(at_ms, at_ms - 40, node_id, order) for at_ms, node_id, order in seen]


def happened(at_ms: int, what: str, epoch: int, session_id: str = SID) -> Event:
    """One entry of the trail."""
    return Event(id=f"{at_ms}-0", at_ms=at_ms, what=what, session_id=session_id, epoch=epoch)


def test_a_takeover_is_split_as_the_trail_tells() -> None:
    """From the fault to the first frame, and each part of it; others' entries don't count."""
    seen = frames((1_100, "a", OLD), (1_990, "a", OLD), (4_900, "b", NEW), (4_950, "b", NEW))
    trail = [
        happened(1_020, "running", 1_000),
        happened(3_900, "returned", 3_900),
        happened(3_950, "returned", 3_950, "default-bbbbbbbbbbbbbbbbbbbbbbbbbb"),
        happened(4_000, "assigned", 4_000),
        happened(4_250, "starting_pipeline", 4_000),
        happened(4_300, "running", 4_000),
    ]
    told = takeover(SID, seen, trail, since_ms=2_000)
    assert told is not None
    assert (told.old_node, told.new_node, told.total_ms, told.dark_ms) == ("a", "b", 2_900, 2_910)
    assert told.parts_ms == {
        "detection": 1_900, "dispatch": 100, "join": 250, "start": 50, "frame": 560, "arrival": 40,
    }  # fmt: skip


def test_whoever_sees_no_other_worker_has_no_takeover() -> None:
    """Neither who wasn't hurt nor who was lost."""
    assert takeover(SID, frames((1_100, "a", OLD), (9_000, "a", OLD)), [], since_ms=2_000) is None


def test_a_part_that_the_trail_doesnt_tell_is_left_out() -> None:
    """The others stand."""
    told = takeover(
        SID,
        frames((1_990, "a", OLD), (4_900, "b", NEW)),
        [happened(3_900, "returned", 3_900), happened(4_300, "running", 4_000)],
        since_ms=2_000,
    )
    assert told is not None
    assert told.parts_ms == {"detection": 1_900, "frame": 560, "arrival": 40}


def test_one_frame_of_an_older_worker_is_a_ghost() -> None:
    """After the newer one's first; what came before it is nobody's ghost."""
    seen = frames((1_100, "a", OLD), (4_900, "b", NEW), (4_910, "a", OLD), (4_950, "b", NEW))
    (told,) = ghosts(SID, seen)
    assert "1 frames of a" in told
    assert "0.010 s after one of b" in told
    assert list(ghosts(SID, seen[:2])) == []


def test_an_earlier_join_of_the_same_epoch_is_a_ghost_too() -> None:
    """Identities differ by attempt."""
    again = (1_000, 2)
    seen = frames((1_100, "a", OLD), (1_500, "a", again), (1_600, "a", OLD), (1_700, "a", OLD))
    (told,) = ghosts(SID, seen)
    assert "2 frames of a" in told
