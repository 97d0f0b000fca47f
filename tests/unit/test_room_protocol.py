"""Which messages of a controller keep the rules, and which break one?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.room_protocol import (
    CONTROLS,
    MAX_PROMPT_CHARS,
    MAX_SEQ,
    ControlMessage,
    ControlRejected,
    ControlType,
    Refusal,
    parse_control,
)

SESSION = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
MAX_BYTES = 12_288


def parse(body: object) -> ControlMessage | ControlRejected:
    """Parse one message of the session's controller."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_control(raw, session_id=SESSION, max_bytes=MAX_BYTES)


def envelope(type_: str, payload: object = None, **outer: object) -> dict[str, object]:
    """A message in the enveloped form."""
    body: dict[str, object] = {"version": 1, "session_id": SESSION, "type": type_, **outer}
    return body if payload is None else {**body, "payload": payload}


ACCEPTED = [
    ({"type": "control_state", "controls": ["w", "j"]}, {"controls": ["w", "j"]}),
    ({"type": "control_state", "controls": []}, {"controls": []}),
    ({"type": "control", "control": "KeyW", "event": "press"}, {}),
    ({"type": "control", "key": "w", "action": "keyup"}, {"control": "w", "event": "keyup"}),
    ({"type": "control", "event": "reset_pose"}, {"event": "reset_pose"}),
    ({"type": "prompt", "prompt": "a harbour at dusk"}, {"prompt": "a harbour at dusk"}),
    ({"type": "reset", "seed": 7}, {"seed": 7}),
    ({"type": "stop"}, {}),
    ({"type": "delivery_ack", "published_frames": 0}, {"published_frames": 0}),
    (envelope("control_state", {"controls": ["w"]}), {"controls": ["w"]}),
    (envelope("control_state", {"type": "control_state", "controls": ["w"]}), {}),
    (envelope("stop"), {}),
    ({"version": 1, "type": "stop", "payload": {}}, {}),
]


@pytest.mark.parametrize(("body", "expected"), ACCEPTED, ids=lambda value: json.dumps(value)[:60])
def test_a_message_that_keeps_the_rules_becomes_a_chunk(
    body: dict[str, object], expected: dict[str, object]
) -> None:
    """Bare or enveloped, the service gets the type and the payload's fields, nothing else."""
    message = parse(body)
    assert isinstance(message, ControlMessage)
    assert message.chunk["type"] == body["type"]
    assert {**message.chunk, **expected} == message.chunk
    assert not {"version", "session_id", "payload", "seq"} & set(message.chunk)


REFUSED = [
    (b"\xff\xfe", Refusal.BAD_JSON),
    (b"{", Refusal.BAD_JSON),
    (b"[" * 5000, Refusal.BAD_JSON),
    (b'{"type": "reset", "x": NaN}', Refusal.BAD_JSON),
    (b'{"type": "reset", "x": -1e999}', Refusal.BAD_JSON),
    (b'{"type": "prompt", "prompt": "a\\ud800"}', Refusal.BAD_JSON),
    (b'{"type": "reset", "\\udfff": 1}', Refusal.BAD_JSON),
    (["stop"], Refusal.BAD_JSON),
    ({}, Refusal.UNKNOWN_TYPE),
    ({"type": "explode"}, Refusal.UNKNOWN_TYPE),
    ({"type": ["stop"]}, Refusal.UNKNOWN_TYPE),
    ({"type": "stop", "session_id": "other"}, Refusal.OTHER_SESSION),
    ({**envelope("stop"), "session_id": None}, Refusal.OTHER_SESSION),
    (envelope("stop", {"session_id": "other"}), Refusal.OTHER_SESSION),
    ({**envelope("stop"), "version": 2}, Refusal.BAD_ENVELOPE),
    ({**envelope("stop"), "version": True}, Refusal.BAD_ENVELOPE),
    ({"type": "stop", "payload": {}}, Refusal.BAD_ENVELOPE),
    ({**envelope("stop"), "payload": []}, Refusal.BAD_ENVELOPE),
    (envelope("reset", {"type": "stop"}), Refusal.TYPE_MISMATCH),
    ({"type": "control_state"}, Refusal.BAD_PAYLOAD),
    ({"type": "control_state", "controls": "w"}, Refusal.BAD_PAYLOAD),
    ({"type": "control_state", "controls": [1]}, Refusal.BAD_PAYLOAD),
    ({"type": "control_state", "controls": ["w", "x"]}, Refusal.UNKNOWN_CONTROL),
    ({"type": "control_state", "controls": ["w", "w"]}, Refusal.DUPLICATE_CONTROL),
    ({"type": "control", "control": "w"}, Refusal.BAD_PAYLOAD),
    ({"type": "control", "control": "w", "event": "hold"}, Refusal.BAD_PAYLOAD),
    ({"type": "control", "event": "press"}, Refusal.BAD_PAYLOAD),
    ({"type": "control", "control": "w", "key": "s", "event": "press"}, Refusal.BAD_PAYLOAD),
    ({"type": "control", "control": "shift", "event": "press"}, Refusal.UNKNOWN_CONTROL),
    ({"type": "prompt"}, Refusal.BAD_PAYLOAD),
    ({"type": "prompt", "prompt": "  "}, Refusal.BAD_PAYLOAD),
    ({"type": "prompt", "prompt": "x" * (MAX_PROMPT_CHARS + 1)}, Refusal.BAD_PAYLOAD),
    ({"type": "delivery_ack", "published_frames": -1}, Refusal.BAD_PAYLOAD),
    ({"type": "delivery_ack", "published_frames": True}, Refusal.BAD_PAYLOAD),
    ({"type": "stop", "seq": 1.5}, Refusal.BAD_SEQ),
    ({"type": "stop", "seq": -1}, Refusal.BAD_SEQ),
    ({"type": "stop", "seq": MAX_SEQ + 1}, Refusal.BAD_SEQ),
    ({"type": "stop", "seq": True}, Refusal.BAD_SEQ),
    ({"type": "prompt", "prompt": "x", "pad": "x" * 13_000}, Refusal.TOO_LARGE),
]


@pytest.mark.parametrize(("body", "code"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_message_that_breaks_a_rule_is_refused_with_its_code(body: object, code: Refusal) -> None:
    """Each rule has a code and a text for the client's author."""
    refused = parse(body)
    assert isinstance(refused, ControlRejected)
    assert refused.code is code
    assert refused.text


def test_a_refusal_names_type_and_number_of_the_message() -> None:
    """So that a client can tell which of its messages it was."""
    refused = parse({"type": "control_state", "controls": ["w", "w"], "seq": 9})
    assert isinstance(refused, ControlRejected)
    assert (refused.type, refused.seq) == ("control_state", 9)


def test_the_number_is_read_from_both_forms() -> None:
    """``seq`` stands beside ``type``."""
    for body in ({"type": "stop", "seq": 0}, envelope("stop", {}, seq=0)):
        message = parse(body)
        assert isinstance(message, ControlMessage)
        assert message.seq == 0


@given(st.binary(max_size=300))
def test_no_bytes_break_the_parser(raw: bytes) -> None:
    """Whatever arrives is a message or a refusal."""
    assert isinstance(parse(raw), ControlMessage | ControlRejected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = ("version", "session_id", "type", "payload", "seq", "controls", "control", "event", "key")


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from([*ControlType, SESSION, 1, {}]))
)
def test_no_object_breaks_the_parser(body: dict[str, object]) -> None:
    """Wrong types in any field are refusals, and what passes has a chunk of its own type."""
    message = parse(body)
    if isinstance(message, ControlMessage):
        assert message.chunk["type"] == message.type


@given(st.text(st.characters(), min_size=1, max_size=40))
def test_what_passes_is_text_that_a_service_can_write_again(prompt: str) -> None:
    """JSON can say half a character; it never reaches a service, nor a log or a file of it."""
    message = parse({"type": "prompt", "prompt": prompt})
    if isinstance(message, ControlMessage):
        assert json.dumps(message.chunk, ensure_ascii=False, allow_nan=False).encode()


@given(st.sets(st.sampled_from(sorted(CONTROLS))))
def test_every_set_of_known_controls_is_accepted(held: set[str]) -> None:
    """In any number, each once."""
    message = parse({"type": "control_state", "controls": sorted(held)})
    assert isinstance(message, ControlMessage)
    assert message.chunk["controls"] == sorted(held)
