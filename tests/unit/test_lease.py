"""One session computes at a time, in order, and nobody is forgotten: the rules of the lease."""

from __future__ import annotations

import pytest

from gpu_node.lease.core import (
    LEASE_MOVES,
    LINGER_S,
    Change,
    ExecutionLease,
    LeaseState,
)
from shared.errors import IllegalMove
from shared.states import move

ACTIVE, PARKED, QUEUED, CLOSING = (
    LeaseState.ACTIVE,
    LeaseState.PARKED,
    LeaseState.QUEUED,
    LeaseState.CLOSING,
)


class Scene:
    """A lease, a clock moved by hand, and sessions named by letters that play."""

    def __init__(self, sessions: str, *, max_chunks: int | None = None) -> None:
        self.now_s = 100.0
        self.lease = ExecutionLease(lambda: self.now_s, max_chunks=max_chunks)
        for name in sessions:
            self.lease.register(name, 10.0)

    def press(self, name: str) -> tuple[Change, ...]:
        """A control comes and there is room for a chunk."""
        return self.lease.record_activity(name) + self.lease.ask(name)

    def chunk(self, name: str) -> tuple[Change, ...]:
        """Make the chunk that was asked for."""
        assert self.lease.is_busy(name)
        return self.lease.finish_chunk(name)


def told(*changes: tuple[str, LeaseState]) -> tuple[Change, ...]:
    """What a call returns."""
    return tuple(Change(session_id=name, state=state) for name, state in changes)


def test_the_first_control_is_granted_at_once() -> None:
    """Nobody holds the lease; its chunk begins."""
    scene = Scene("ab")
    scene.lease.ask("a")
    assert scene.lease.state_of("a") is LeaseState.WAITING
    assert scene.lease.record_activity("a") == told(("a", QUEUED), ("a", ACTIVE))
    assert scene.lease.is_busy("a")


def test_without_a_maximum_a_holder_that_keeps_sending_is_never_taken_off() -> None:
    """However long others wait."""
    scene = Scene("ab")
    scene.press("a")
    scene.press("b")
    for _ in range(1000):
        assert scene.chunk("a") == ()
        scene.now_s += 9.9
        assert scene.press("a") == ()
    assert scene.lease.position("b") == 1


def test_an_idle_holder_without_waiters_keeps_the_lease() -> None:
    """It goes on making chunks."""
    scene = Scene("a")
    scene.press("a")
    scene.now_s += 3600
    assert scene.chunk("a") == ()
    assert scene.lease.deadline_s is None
    assert scene.lease.ask("a") == ()
    assert scene.lease.is_busy("a")


def test_an_idle_holder_yields_at_the_end_of_its_chunk() -> None:
    """A chunk in flight is never interrupted."""
    scene = Scene("ab")
    scene.press("a")
    scene.now_s += 10
    assert scene.press("b") == told(("b", QUEUED))
    assert scene.lease.holder == "a"
    assert scene.chunk("a") == told(("a", PARKED), ("b", ACTIVE))


def test_a_holder_between_chunks_yields_at_its_deadline_and_not_before() -> None:
    """At exactly its timeout it is over."""
    scene = Scene("ab")
    scene.press("a")
    scene.chunk("a")
    scene.press("b")
    assert scene.lease.deadline_s == 110.0
    scene.now_s = 109.999
    assert scene.lease.yield_if_idle() == ()
    scene.now_s = 110.0
    assert scene.lease.yield_if_idle() == told(("a", PARKED), ("b", ACTIVE))


def test_a_holder_that_is_idle_already_is_parked_by_the_next_control() -> None:
    """The newcomer doesn't wait for anything."""
    scene = Scene("ab")
    scene.press("a")
    scene.chunk("a")
    scene.now_s += 11
    assert scene.press("b") == told(("b", QUEUED), ("a", PARKED), ("b", ACTIVE))


def test_a_parked_session_comes_back_at_the_tail() -> None:
    """And only by a new control; wanting a chunk isn't enough."""
    scene = Scene("abc")
    for name in "abc":
        scene.press(name)
    scene.now_s += 10
    assert scene.chunk("a") == told(("a", PARKED), ("b", ACTIVE))
    assert scene.lease.ask("a") == ()
    assert scene.lease.record_activity("a") == told(("a", QUEUED))
    assert [scene.lease.position(name) for name in "bca"] == [None, 1, 2]


def test_whoever_waited_gets_one_chunk_even_if_its_control_is_stale() -> None:
    """Otherwise two slow sessions would hand an unused lease to and fro."""
    scene = Scene("abc")
    for name in "abc":
        scene.press(name)
    scene.now_s += 60
    assert scene.chunk("a") == told(("a", PARKED), ("b", ACTIVE))
    assert scene.lease.yield_if_idle() == ()
    assert scene.lease.is_busy("b")
    assert scene.chunk("b") == told(("b", PARKED), ("c", ACTIVE))


def test_a_queued_session_keeps_its_place_whatever_it_sends() -> None:
    """Pressing more keys doesn't help, nor hurt."""
    scene = Scene("abc")
    for name in "abc":
        scene.press(name)
    for _ in range(3):
        assert scene.press("b") == ()
    assert [scene.lease.position(name) for name in "bc"] == [1, 2]


def test_a_session_without_room_for_a_chunk_doesnt_stand_in_line() -> None:
    """Its control is remembered until the player has taken what was made."""
    scene = Scene("ab")
    scene.press("b")
    assert scene.lease.record_activity("a") == ()
    assert scene.lease.position("a") is None
    assert scene.lease.ask("a") == told(("a", QUEUED))


def test_the_end_of_the_stream_frees_the_lease_at_once() -> None:
    """Nobody waits for the last chunk to be played."""
    scene = Scene("ab")
    scene.press("a")
    scene.press("b")
    scene.lease.finish_chunk("a", counts=False)
    assert scene.lease.rest("a") == told(("a", PARKED), ("b", ACTIVE))
    assert scene.lease.rest("b") == told(("b", PARKED))
    assert scene.lease.holder is None


def test_a_failed_chunk_is_a_boundary_too() -> None:
    """And one that wasn't begun leaves the line."""
    scene = Scene("abc")
    for name in "abc":
        scene.press(name)
    assert scene.lease.abort_chunk("b") == told(("b", PARKED))
    scene.now_s += 10
    assert scene.lease.abort_chunk("a") == told(("a", PARKED), ("c", ACTIVE))


def test_it_is_known_for_how_long_the_present_chunk_is_made() -> None:
    """From the grant, or from the holder's own next wish; a model at rest isn't busy."""
    scene = Scene("ab")
    scene.press("a")
    scene.now_s += 2
    scene.press("a")
    assert scene.lease.busy_s == 2
    scene.chunk("a")
    scene.now_s += 3
    assert scene.lease.busy_s == 0
    scene.press("a")
    scene.now_s += 1
    assert scene.lease.busy_s == 1


# --- closing ------------------------------------------------------------------------------------


def test_a_closing_holder_keeps_the_lease_until_its_cleanup_is_confirmed() -> None:
    """Whatever the others do, and however long it takes: the reference handed it on too early."""
    scene = Scene("abc")
    scene.press("a")
    scene.press("b")
    scene.chunk("a")
    assert scene.lease.deactivate("a") == told(("a", CLOSING))
    scene.now_s += 3600
    assert scene.press("c") == told(("c", QUEUED))
    assert scene.press("b") == ()
    assert scene.lease.yield_if_idle() == ()
    assert (scene.lease.holder, scene.lease.deadline_s) == ("a", None)
    assert scene.lease.release("a") == told(("b", ACTIVE))


def test_nothing_leads_out_of_closing() -> None:
    """Neither a control, nor a chunk that ends, nor a second close."""
    scene = Scene("a")
    scene.press("a")
    scene.lease.deactivate("a")
    assert scene.lease.deactivate("a") == ()
    assert scene.lease.record_activity("a") == ()
    assert scene.lease.abort_chunk("a") == ()
    assert scene.lease.ask("a") == ()
    assert scene.lease.rest("a") == ()
    assert scene.lease.state_of("a") is CLOSING
    assert not LEASE_MOVES[CLOSING]
    with pytest.raises(IllegalMove):
        move(LEASE_MOVES, CLOSING, PARKED)


def test_a_queued_session_that_closes_leaves_the_line() -> None:
    """Those behind it move up."""
    scene = Scene("abcd")
    for name in "abcd":
        scene.press(name)
    scene.lease.deactivate("c")
    assert [scene.lease.position(name) for name in "bcd"] == [1, None, 2]


def test_nobody_is_granted_anything_after_the_close() -> None:
    """Everybody is closing; what is still confirmed is only forgotten."""
    scene = Scene("abc")
    scene.press("a")
    scene.press("b")
    assert scene.lease.close() == told(("a", CLOSING), ("b", CLOSING), ("c", CLOSING))
    assert scene.lease.release("a") == ()
    assert scene.lease.holder is None
    with pytest.raises(ValueError, match="closed"):
        scene.lease.register("d", 10.0)


def test_late_calls_for_a_session_that_is_gone_do_no_harm() -> None:
    """Rooms are late; a release comes twice."""
    scene = Scene("a")
    scene.lease.deactivate("a")
    for _ in range(2):
        scene.lease.release("a")
    assert scene.lease.record_activity("a") == ()
    assert scene.lease.deactivate("a") == ()
    assert scene.lease.abort_chunk("a") == ()
    assert scene.lease.state_of("a") is None


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
def test_an_idle_timeout_must_last(timeout_s: float) -> None:
    """Zero would hand the lease on before its first chunk."""
    with pytest.raises(ValueError, match="longer than 0"):
        Scene("").lease.register("a", timeout_s)


def test_mistakes_of_the_caller_are_errors() -> None:
    """They would give one lease to two."""
    scene = Scene("ab")
    with pytest.raises(ValueError, match="registered already"):
        scene.lease.register("a", 10.0)
    with pytest.raises(ValueError, match="didn't begin"):
        scene.lease.finish_chunk("a")
    with pytest.raises(ValueError, match="before it closes"):
        scene.lease.release("a")
    with pytest.raises(ValueError, match="at least one chunk"):
        Scene("", max_chunks=0)


# --- a maximum hold -----------------------------------------------------------------------------


def test_under_a_maximum_hold_of_one_chunk_all_take_turns() -> None:
    """Without a single control, and whoever keeps sending gets no more than the others."""
    scene = Scene("abc", max_chunks=1)
    for name in "abc":
        scene.lease.ask(name)
    order = []
    for _ in range(9):
        holder = scene.lease.holder
        assert holder is not None
        order.append(holder)
        scene.lease.record_activity("a")
        scene.chunk(holder)
        scene.lease.ask(holder)
    assert "".join(order) == "abcabcabc"


def test_a_longer_hold_is_used_up_before_the_next_ones_turn() -> None:
    """As long as its player wants its chunks quickly enough."""
    scene = Scene("ab", max_chunks=3)
    scene.lease.ask("a")
    scene.lease.ask("b")
    for _ in range(2):
        assert scene.chunk("a") == ()
        scene.lease.ask("a")
    assert scene.chunk("a") == told(("a", PARKED), ("b", ACTIVE))


def test_a_holder_that_wants_nothing_doesnt_keep_the_others_waiting() -> None:
    """Chunks that are left over are no reason to let the model stand still."""
    scene = Scene("ab", max_chunks=3)
    scene.lease.ask("a")
    scene.lease.ask("b")
    scene.chunk("a")
    assert scene.lease.deadline_s == scene.now_s + LINGER_S
    scene.now_s += LINGER_S
    assert scene.lease.yield_if_idle() == told(("a", PARKED), ("b", ACTIVE))


def test_a_holder_whose_time_is_over_when_it_asks_goes_to_the_tail() -> None:
    """Its wish for another chunk isn't lost."""
    scene = Scene("abc", max_chunks=3)
    for name in "abc":
        scene.lease.ask(name)
    scene.chunk("a")
    scene.now_s += LINGER_S
    assert scene.lease.ask("a") == told(("a", PARKED), ("a", QUEUED), ("b", ACTIVE))
    assert [scene.lease.position(name) for name in "ca"] == [1, 2]


def test_a_status_uses_nothing_of_the_hold() -> None:
    """Only chunks of media count."""
    scene = Scene("ab", max_chunks=1)
    scene.lease.ask("a")
    scene.lease.ask("b")
    for _ in range(5):
        assert scene.lease.finish_chunk("a", counts=False) == ()
        scene.lease.ask("a")
    assert scene.chunk("a") == told(("a", PARKED), ("b", ACTIVE))
