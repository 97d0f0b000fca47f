"""What does a worker say, in which shape and how large?"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.room_protocol import ControlRejected, Refusal
from shared.room_status import MAX_STATUS_BYTES, Status, StatusWriter, Transport, encode_status

say = StatusWriter(session_id="default-a", now_s=lambda: 12.5)
AT = {"session_id": "default-a", "timestamp": 12.5}


def test_the_references_shapes_are_kept_exactly() -> None:
    """worker_running, chunk metadata, stages, errors and done are what its clients know."""
    assert say.running("node-a") == {
        "type": "chunk",
        "index": None,
        "data": {"type": "status", "stage": "worker_running", "worker_id": "node-a"},
        "error": None,
        **AT,
    }
    played = Transport(
        decoded_ready_at_s=1.0, publish_started_at_s=1.5, publish_finished_at_s=1.75, frames=4
    )
    assert say.chunk(3, {"type": "chunk", "num_frames": 4}, played) == {
        "type": "chunk",
        "index": 3,
        "data": {
            "type": "chunk",
            "num_frames": 4,
            "transport_measurement": {
                "decoded_ready_at": 1.0,
                "publish_started_at": 1.5,
                "publish_finished_at": 1.75,
                "publish_seconds": 0.25,
                "frames": 4,
                "pacing": "realtime",
            },
        },
        "error": None,
        **AT,
    }
    assert say.error("it broke", "bad_chunk") == {
        "type": "chunk",
        "index": None,
        "data": {"type": "error", "error": "it broke", "code": "bad_chunk"},
        "error": "it broke",
        **AT,
    }
    assert say.done(7, 28) == {"type": "done", "total_chunks": 7, "published_frames": 28, **AT}


REFUSED = ControlRejected(code=Refusal.BAD_PAYLOAD, text="why", type="prompt", seq=4)
OURS: list[tuple[Status, Status]] = [
    (say.first_frame(1), {"type": "first_frame", "frame_id": 1}),
    (say.ack(0), {"type": "control_ack", "seq": 0}),
    (
        say.rejected(REFUSED),
        {
            "type": "control_rejected",
            "code": "bad_payload",
            "rejected_type": "prompt",
            "message": "why",
            "seq": 4,
        },
    ),
    (say.draining("client_stop"), {"type": "draining", "reason": "client_stop"}),
    (say.expiring(60.0), {"type": "expiring", "in_s": 60.0}),
    (say.closed("completed"), {"type": "closed", "reason": "completed"}),
    (say.queued(2), {"type": "queued", "queue_position": 2, "estimated_wait_s": None}),
    (say.requeued("node_dead"), {"type": "requeued", "reason": "node_dead"}),
    (say.resumed(2), {"type": "resumed", "attempt": 2}),
    (say.owner_changed(9), {"type": "owner_changed", "epoch": 9}),
]


@pytest.mark.parametrize(("said", "expected"), OURS, ids=lambda body: str(body["type"]))
def test_our_own_words_are_flat(said: Status, expected: Status) -> None:
    """Type, session, the word's own fields, time."""
    assert said == {**expected, **AT}


def test_a_refusal_without_a_number_names_none() -> None:
    """``seq`` is there only if the message had one."""
    assert "seq" not in say.rejected(ControlRejected(code=Refusal.BAD_JSON, text="why"))


def test_a_large_chunk_loses_its_largest_parts_first_and_says_so() -> None:
    """What identifies the chunk stays."""
    data = {"type": "chunk", "huge": list(range(9000)), "note": "x" * 20_000, "small": 1}
    body = json.loads(encode_status({"type": "chunk", "index": 3, "data": data, **AT}))
    assert body["trimmed"] is True
    assert body["index"] == 3
    assert body["data"]["small"] == 1
    assert "huge" not in body["data"]
    assert len(body["data"]["note"]) == 1000


def test_a_services_own_values_are_made_plain() -> None:
    """Numpy's numbers and small arrays are values; what JSON can't say is named by its type."""
    data = {
        "scalar": np.float32(0.5),
        "pose": np.eye(2),
        "nan": float("nan"),
        "raw": b"x",
        "picture": np.zeros((99, 99)),
        7: (1, {"deep": np.int64(3)}),
    }
    assert json.loads(encode_status({"data": data}))["data"] == {
        "scalar": 0.5,
        "pose": [[1.0, 0.0], [0.0, 1.0]],
        "nan": None,
        "raw": "<bytes>",
        "picture": "<ndarray>",
        "7": [1, {"deep": 3}],
    }


@pytest.mark.parametrize("name", ["data", "stage", "other"])
def test_no_name_protects_a_large_value(name: str) -> None:
    """Not even the names that are kept when they are small."""
    for value in (list(range(9000)), {str(key): key for key in range(9000)}):
        encoded = encode_status({"type": "chunk", "data": {name: value, "index": 5}})
        assert len(encoded) <= MAX_STATUS_BYTES


@pytest.mark.parametrize(
    "number", [10**5000, -(10**5000), 2**65], ids=["endless", "below", "over 64 bits"]
)
def test_a_number_without_end_is_named_by_its_type(number: int) -> None:
    """Python itself refuses to write the longest ones, and the speaker must not fall over them."""
    assert json.loads(encode_status({"data": {"n": [number], number: 2**64}}))["data"] == {
        "n": ["<int>"],
        "<int>": 2**64,
    }


def much_of_everything() -> dict[str, object]:
    """Metadata that would take minutes to write, though it takes little memory."""
    nested: object = 0
    for _ in range(11):
        nested = [nested] * 1000
    return {
        "nested": nested,
        "named": {"deep": {str(number): nested for number in range(1000)}},
        "list": [0] * 3_000_000,
        "text": "x" * 30_000_000,
        "prompt": "a quiet harbour",
        "fps": 16,
    }


def test_what_is_far_too_large_is_not_looked_at_in_full() -> None:
    """All rooms of a node wait while a status is written; the small entries are told all the same.

    A structure that holds itself many times over would never end; no limit of time is needed here.
    """
    body = {"type": "chunk", "data": much_of_everything(), "error": None, "timestamp": 1.0}
    said = json.loads(encode_status(body))
    assert said.pop("trimmed") is True
    assert said["data"].pop("text") == "x" * 1000
    assert said == {
        "type": "chunk",
        "data": {"prompt": "a quiet harbour", "fps": 16},
        "error": None,
        "timestamp": 1.0,
    }


def test_what_just_fits_is_told_in_full() -> None:
    """The count of values cuts nothing off that would have been sent."""
    body = {"type": "chunk", "data": {"list": [0] * 7_600, "of": [[]] * 10}}
    assert json.loads(encode_status(body)) == body


def test_a_broken_character_is_replaced() -> None:
    """Half a surrogate pair, in a value or a name, would be no UTF-8."""
    assert json.loads(encode_status({"x\ud800": "y\udfff"})) == {"x?": "y?"}


ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([5000, 4400]).map(lambda digits: 10**digits)
    | st.floats()
    | st.text()
    | st.binary(max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), ANY_VALUE, max_size=5), st.integers(0, 16_000))
def test_every_status_is_strict_json_under_the_limit(data: dict[str, object], pad: int) -> None:
    """Whatever a service puts into its metadata."""
    encoded = encode_status({**say.stage({**data, "pad": "é" * pad, "list": [pad] * (pad // 4)})})
    assert len(encoded) <= MAX_STATUS_BYTES
    body = json.loads(encoded, parse_constant=pytest.fail)
    assert body["type"] == "chunk"
