"""Which inbound messages count, and what follows from them?"""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gpu_node.control import (
    MAX_KEPT,
    MAX_REMEMBERED_SEQS,
    Apply,
    ControlGate,
    Decision,
    Delivered,
    Ignore,
    Reply,
    Stop,
)
from shared.room_status import StatusWriter

SESSION = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
TOPIC = "tf.control"


def gate(*, opened: bool = True) -> ControlGate:
    """A gate of alice's session, by default with its pipeline session open."""
    status = StatusWriter(session_id=SESSION, now_s=lambda: 1.0)
    made = ControlGate(controller="alice", status=status, max_bytes=12_288)
    if opened:
        assert made.open() == ()
    return made


def say(
    to: ControlGate, body: object, sender: str = "alice", topic: str = TOPIC
) -> tuple[Decision, ...]:
    """Let somebody say *body*, by default the controller on the right topic."""
    return to.receive(sender, json.dumps(body).encode(), topic)


def state(*held: str, seq: int | None = None) -> dict[str, object]:
    """A control_state message."""
    body: dict[str, object] = {"type": "control_state", "controls": list(held)}
    return body if seq is None else {**body, "seq": seq}


def press(key: str) -> dict[str, object]:
    """A control message."""
    return {"type": "control", "control": key, "event": "press"}


def replies(decisions: tuple[Decision, ...]) -> list[dict[str, object]]:
    """What is to be answered."""
    return [one.status for one in decisions if isinstance(one, Reply)]


def chunks(decisions: tuple[Decision, ...]) -> list[object]:
    """What is to be pushed to the service."""
    return [one.chunk for one in decisions if isinstance(one, Apply)]


def test_a_control_is_applied_and_its_number_acknowledged() -> None:
    """First the service gets it, then the client hears of it."""
    applied, reply = say(gate(), state("w", seq=5))
    assert applied == Apply(chunk={"type": "control_state", "controls": ["w"]})
    assert isinstance(reply, Reply)
    assert (reply.status["type"], reply.status["seq"]) == ("control_ack", 5)


def test_without_a_number_nothing_is_answered() -> None:
    """The reference's clients send none."""
    assert say(gate(), state("w")) == (Apply(chunk={"type": "control_state", "controls": ["w"]}),)


def test_a_repetition_is_acknowledged_again_and_not_applied() -> None:
    """The acknowledgement may have been lost; the press must not count twice."""
    to = gate()
    say(to, {**press("w"), "seq": 1})
    again = say(to, {**press("w"), "seq": 1})
    assert chunks(again) == []
    assert [reply["type"] for reply in replies(again)] == ["control_ack"]


def test_a_new_connection_of_the_controller_may_count_from_the_start() -> None:
    """A reloaded page doesn't know the old numbers."""
    to = gate()
    say(to, state("w", seq=1))
    to.renew()
    assert chunks(say(to, state("s", seq=1)))


def test_numbers_are_forgotten_in_the_end() -> None:
    """The memory for repetitions is bounded."""
    to = gate()
    for seq in range(MAX_REMEMBERED_SEQS + 1):
        say(to, state(seq=seq))
    assert chunks(say(to, state(seq=0)))
    assert not chunks(say(to, state(seq=MAX_REMEMBERED_SEQS)))


def test_strangers_are_refused() -> None:
    """Viewers, workers and other controllers can't steer; their numbers aren't repeated to all."""
    for sender in ("bob", "telefuser-node-a-1-1", "Alice"):
        (reply,) = replies(say(gate(), state("w", seq=3), sender=sender))
        assert reply["code"] == "not_controller"
        assert "seq" not in reply


def test_a_controller_that_is_named_like_a_worker_cant_steer() -> None:
    """Such a session can't be made by the API; a forged one gets nothing."""
    status = StatusWriter(session_id=SESSION, now_s=lambda: 1.0)
    to = ControlGate(controller="telefuser-x", status=status, max_bytes=99)
    to.open()
    assert not chunks(say(to, state("w"), sender="telefuser-x"))


def test_a_nameless_message_may_be_sent_again() -> None:
    """The room learns of a newcomer a moment after it speaks: the client is told which message."""
    (reply,) = replies(say(gate(), state("w", seq=3), sender=""))
    assert (reply["code"], reply["seq"]) == ("unknown_sender", 3)


def test_other_topics_are_none_of_ours() -> None:
    """They are ignored without a word."""
    assert say(gate(), state("w"), topic="tf.status") == (Ignore(why="other_topic"),)
    assert say(gate(), state("w"), topic="chat", sender="bob") == (Ignore(why="other_topic"),)


def test_a_broken_rule_is_answered() -> None:
    """With its code, its type and its number."""
    (reply,) = replies(say(gate(), {"type": "control_state", "controls": ["x"], "seq": 2}))
    assert (reply["type"], reply["code"]) == ("control_rejected", "unknown_control")
    assert (reply["rejected_type"], reply["seq"]) == ("control_state", 2)


def test_a_refused_number_isnt_used_up() -> None:
    """The corrected message may carry it."""
    to = gate()
    say(to, {"type": "control_state", "controls": ["x"], "seq": 2})
    assert chunks(say(to, state("w", seq=2)))


def test_a_13_kib_message_is_refused() -> None:
    """Over the limit nothing is even parsed."""
    (reply,) = replies(say(gate(), {"type": "prompt", "prompt": "x" * 13_312}))
    assert reply["code"] == "too_large"


def test_messages_before_the_pipeline_session_are_kept_in_order() -> None:
    """Of states and prompts the newest, and numbers are acknowledged at once."""
    to = gate(opened=False)
    assert [one["seq"] for one in replies(say(to, state("w", seq=1)))] == [1]
    assert say(to, {"type": "prompt", "prompt": "old"}) == (Ignore(why="kept"),)
    say(to, press("a"))
    say(to, {"type": "prompt", "prompt": "new"})
    say(to, state("s"))
    assert chunks(to.open()) == [
        {"type": "control", "control": "a", "event": "press"},
        {"type": "prompt", "prompt": "new"},
        {"type": "control_state", "controls": ["s"]},
    ]
    assert chunks(say(to, press("d")))


def test_what_is_kept_is_bounded_and_keeps_the_newest_state() -> None:
    """A flood of presses neither grows nor drives the state out."""
    to = gate(opened=False)
    say(to, state("w"))
    for _ in range(100):
        say(to, press("a"))
    kept = chunks(to.open())
    assert len(kept) == MAX_KEPT
    assert {"type": "control_state", "controls": ["w"]} in kept


def test_stop_counts_at_once_and_for_good() -> None:
    """Even before the pipeline session exists; what was kept is dropped, what follows ignored."""
    for opened in (True, False):
        to = gate(opened=opened)
        if not opened:
            say(to, state("w"))
        stop, reply = say(to, {"type": "stop", "seq": 9})
        assert stop == Stop(chunk={"type": "stop"})
        assert replies((reply,))[0]["seq"] == 9
        assert say(to, state("s")) == (Ignore(why="stopping"),)
        assert to.open() == ()


def test_received_frames_are_counted_and_not_pushed() -> None:
    """A delivery_ack is for the runner."""
    decisions = say(gate(), {"type": "delivery_ack", "published_frames": 12})
    assert decisions == (Delivered(published_frames=12),)


def test_while_silent_nothing_counts_and_nothing_is_answered() -> None:
    """R2: a worker that may have lost its session neither acts nor speaks."""
    to = gate()
    to.silent = True
    assert say(to, {"type": "stop", "seq": 1}) == (Ignore(why="silent"),)
    to.silent = False
    assert isinstance(say(to, {"type": "stop", "seq": 1})[0], Stop)


BODIES = st.one_of(
    st.builds(lambda held, seq: state(*held, seq=seq), st.sets(st.sampled_from("wasd")), st.none()),
    st.builds(lambda seq: {**press("w"), "seq": seq}, st.integers(0, 5)),
    st.just({"type": "stop"}),
    st.just({"type": "bad"}),
)


@given(st.lists(st.tuples(BODIES, st.sampled_from(["alice", "bob", ""])), max_size=80))
def test_however_messages_come_each_is_decided(
    messages: list[tuple[dict[str, object], str]],
) -> None:
    """Every message has a decision, and after a stop no chunk goes to the service."""
    to, stopped = gate(), False
    for body, sender in messages:
        decisions = say(to, body, sender=sender)
        assert decisions
        assert not (stopped and chunks(decisions))
        stopped = stopped or any(isinstance(one, Stop) for one in decisions)
