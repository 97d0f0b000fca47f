"""Does what crosses between node and child arrive as it was sent, however it is cut?"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.worker.framing import Decoder, LostPlace, encode
from gpu_node.worker.parcels import pack, unpack
from gpu_node.worker.wire import error_from, error_word, parcelled, value_of
from shared.errors import BadChunk, InvalidConfig, ServiceFault, ServiceLoadFailed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.integers(4096, 5000).map(lambda size: "ä" * size),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.integers(1, 50))
def test_a_value_arrives_as_it_was_sent_however_the_socket_cuts_it(value: Any, step: int) -> None:
    """Texts, bytes and numbers at any depth, in pieces of any size."""
    sent = parcelled(value, do="call", id=1) + parcelled("next", do="call", id=2)
    decoder = Decoder()
    came = [
        message
        for begin in range(0, len(sent), step)
        for message in decoder.feed(sent[begin : begin + step])
    ]
    assert [message.head["id"] for message in came] == [1, 2]
    assert value_of(came[0]) == value
    assert value_of(came[1]) == "next"


@given(st.lists(st.sampled_from(["u1", "i2", "f4", "?", ">i4"]), max_size=4), st.data())
def test_arrays_cross_with_their_shape_and_type(kinds: list[str], data: Any) -> None:
    """As views of the block, which nobody copies."""
    arrays = [
        np.arange(np.prod(shape := data.draw(st.lists(st.integers(0, 5), max_size=3)), dtype=int))
        .reshape(shape)
        .astype(kind)
        for kind in kinds
    ]
    parcel = pack({"frames": arrays})
    block = np.zeros(parcel.size_bytes, np.uint8)
    parcel.fill(block)
    for sent, came in zip(arrays, unpack(parcel.plain, parcel.table, block)["frames"], strict=True):
        assert came.dtype == sent.dtype
        assert came.shape == sent.shape
        assert np.array_equal(came, sent)


def test_a_frame_that_lies_strangely_in_memory_arrives_upright() -> None:
    """Flipped, transposed and cut arrays are copied once, into the block."""
    frame = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    strange = [frame[::-1], frame.transpose(1, 0, 2), frame[1:3, ::2]]
    parcel = pack(strange)
    block = np.zeros(parcel.size_bytes, np.uint8)
    parcel.fill(block)
    for sent, came in zip(strange, unpack(parcel.plain, parcel.table, block), strict=True):
        assert np.array_equal(came, sent)


class _Word(enum.StrEnum):
    ONE = "one"


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (object(), "<object>"),
        ({1: {2}}, {"1": "<set>"}),
        ((1, 2), [1, 2]),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (_Word.ONE, "one"),
        (-(2**65), "<int>"),
        (np.array(["a"], dtype=object), "<ndarray>"),
        ("half \udcff character", "half \udcff character"),
    ],
)
def test_what_json_has_no_word_for_arrives_named_or_plain(value: object, arrives: object) -> None:
    """Nothing that a service puts into a chunk breaks the pipe."""
    (message,) = Decoder().feed(parcelled(value))
    assert value_of(message) == arrives


def test_endless_depth_and_numbers_that_are_none_are_carried_or_named() -> None:
    """A value that contains itself ends somewhere."""
    endless: list[object] = []
    endless.append(endless)
    (message,) = Decoder().feed(parcelled([endless, math.inf]))
    assert "<list>" in str(value_of(message)[0])
    assert value_of(message)[1] == math.inf


@pytest.mark.parametrize(
    "noise", [b"\xff" * 8, b"\0\0\0\1\0\0\0\0x", b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\2\0\0\0\0\xff\xff"]
)
def test_noise_is_noticed(noise: bytes) -> None:
    """A broken peer is told from a message that isn't complete."""
    with pytest.raises(LostPlace):
        list(Decoder().feed(noise))
    assert list(Decoder().feed(encode({"say": "alive"})[:-1])) == []


@pytest.mark.parametrize("kind", [ServiceFault, ServiceLoadFailed, InvalidConfig, BadChunk])
def test_errors_keep_their_kind_and_their_words(kind: type[ServiceFault]) -> None:
    """The session ends as it would have without a child."""
    came = error_from(error_word(kind("the world fell apart")))
    assert type(came) is kind
    assert str(came) == "the world fell apart"


def test_an_unknown_error_is_a_fault_of_the_service() -> None:
    """Whatever it was, it isn't the client's."""
    assert type(error_from(error_word(RuntimeError()))) is ServiceFault
