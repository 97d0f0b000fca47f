"""The control gate, whatever is said to it in whatever order: it decides, answers, and goes on."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_node.control import MAX_KEPT, Apply, ControlGate, Decision, Delivered, Ignore, Reply, Stop
from shared.room_protocol import CONTROL_TOPIC, MAX_SEQ, ControlType, Refusal
from shared.room_status import StatusWriter, encode_status
from tests.support.made_up_messages import messages

SESSION = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
MAX_BYTES = 12_288
MAX_STATUS_BYTES = 15 * 1024


def gate() -> ControlGate:
    """A gate of alice's session."""
    status = StatusWriter(session_id=SESSION, now_s=lambda: 1.0)
    return ControlGate(controller="alice", status=status, max_bytes=MAX_BYTES)


def said(decisions: tuple[Decision, ...], kind: str) -> list[dict[str, Any]]:
    """Return the answers of one kind; each must fit into a message of its own."""
    answers = [one.status for one in decisions if isinstance(one, Reply)]
    assert all(len(encode_status(answer)) <= MAX_STATUS_BYTES for answer in answers)
    return [cast("dict[str, Any]", answer) for answer in answers if answer["type"] == kind]


def counts(decisions: tuple[Decision, ...]) -> list[Decision]:
    """Return what has an effect."""
    return [one for one in decisions if isinstance(one, Apply | Stop | Delivered)]


@settings(max_examples=400)
@given(message=messages)
def test_whatever_the_controller_says_is_done_or_refused(message: bytes) -> None:
    """Never both, never neither; a refusal has a code, and what is done is within the words."""
    opened = gate()
    opened.open()
    decisions = opened.receive("alice", message, CONTROL_TOPIC)
    refusals, done = said(decisions, "control_rejected"), counts(decisions)

    assert len(refusals) + len(done) == 1
    for refusal in refusals:
        assert refusal["code"] in set(Refusal)
    for one in done:
        if isinstance(one, Apply | Stop):
            assert one.chunk["type"] in set(ControlType)
            assert len(json.dumps(one.chunk)) <= 7 * MAX_BYTES  # as it is read, not as it came
    for ack in said(decisions, "control_ack"):
        assert 0 <= ack["seq"] <= MAX_SEQ


@settings(max_examples=200)
@given(message=messages, sender=st.sampled_from(("", "bob", "alice ", "telefuser-x-1-1", "Alice")))
def test_nobody_else_gets_anything_done(message: bytes, sender: str) -> None:
    """Whoever they are, and whatever they say; they are told so."""
    opened = gate()
    opened.open()
    decisions = opened.receive(sender, message, CONTROL_TOPIC)

    assert counts(decisions) == []
    assert [refusal["code"] for refusal in said(decisions, "control_rejected")] == [
        "not_controller" if sender else "unknown_sender"
    ]


class Talk(RuleBasedStateMachine):
    """One session's gate, from before its pipeline session until after its end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = gate()
        self.is_open = self.has_stopped = False
        self.fresh = 10_000

    @rule(message=messages, sender=st.sampled_from(("alice", "bob", "")))
    def speak(self, message: bytes, sender: str) -> None:
        """Somebody says something."""
        decisions = self.gate.receive(sender, message, CONTROL_TOPIC)
        quiet = self.has_stopped or self.gate.silent
        assert decisions
        if quiet:
            assert all(isinstance(one, Ignore) for one in decisions)
        if any(isinstance(one, Stop) for one in decisions):
            assert sender == "alice"
            self.has_stopped = True

    @precondition(lambda self: not self.is_open and not self.has_stopped)
    @rule()
    def open(self) -> None:
        """The pipeline session exists."""
        self.is_open = True
        assert len(self.gate.open()) <= MAX_KEPT

    @rule()
    def come_back(self) -> None:
        """The controller reloads."""
        self.gate.renew()

    @rule(silent=st.booleans())
    def lose_or_find_the_lease(self, silent: bool) -> None:
        """R2."""
        self.gate.silent = silent

    @invariant()
    def a_fresh_message_is_still_acknowledged(self) -> None:
        """Nothing that was said before has broken it."""
        if self.has_stopped or self.gate.silent:
            return
        self.fresh += 1
        body = json.dumps({"type": "delivery_ack", "published_frames": 1, "seq": self.fresh})
        decisions = self.gate.receive("alice", body.encode(), CONTROL_TOPIC)
        assert [ack["seq"] for ack in said(decisions, "control_ack")] == [self.fresh]


TestTalk = Talk.TestCase
TestTalk.settings = settings(max_examples=40, stateful_step_count=30)
