"""Which chunks of a model service are valid, and what do they hold?"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gpu_node.media import ChunkReader, decoded
from shared.errors import BadChunk

DEFAULT_FPS = 16.0


def reader() -> ChunkReader:
    """A reader at the start of a session."""
    return ChunkReader(DEFAULT_FPS)


def array(width: int = 16, height: int = 8, value: int = 7) -> np.ndarray[Any, Any]:
    """A frame as an array."""
    return np.full((height, width, 3), value, np.uint8)


def jpeg(width: int = 16, height: int = 8) -> str:
    """A frame as the wire carries it."""
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(buffer, "JPEG")
    return base64.b64encode(buffer.getvalue()).decode()


def sound(samples: int = 4, channels: int = 1) -> str:
    """Some samples as the wire carries them."""
    return base64.b64encode(np.arange(samples * channels, dtype="<i2").tobytes()).decode()


class LikePyAv:
    """What PyAV's video frame offers."""

    def to_ndarray(self, **options: str) -> np.ndarray[Any, Any]:
        assert options == {"format": "rgb24"}
        return array()


@pytest.mark.parametrize(
    "frame",
    [array(), Image.new("RGBA", (16, 8)), Image.new("L", (16, 8)), LikePyAv(), array()[:, ::-1]],
    ids=["array", "rgba image", "grey image", "pyav", "strided array"],
)
def test_every_kind_of_frame_becomes_an_rgb_array(frame: object) -> None:
    """PIL images, arrays and PyAV frames, in a list or a tuple."""
    chunk = reader().read({"type": "chunk", "index": 3, "frames": (frame,)})
    (only,) = chunk.frames
    assert only.shape == (8, 16, 3)
    assert only.dtype == np.uint8
    assert only.flags.c_contiguous
    assert (chunk.type, chunk.index) == ("chunk", 3)


def test_jpegs_are_decoded() -> None:
    """The other way to send frames."""
    chunk = reader().read({"frames_b64": [jpeg(), jpeg()]})
    assert [frame.shape for frame in chunk.frames] == [(8, 16, 3)] * 2
    assert abs(int(chunk.frames[0][0, 0, 0]) - 200) < 5


def test_frames_are_copies() -> None:
    """A service may paint its next picture into the same array."""
    canvas = array(value=1)
    chunk = reader().read({"frames": [canvas]})
    canvas[:] = 2
    assert (chunk.frames[0] == 1).all()


def test_media_may_lie_one_level_down() -> None:
    """Under ``data``, when the top level has no frames."""
    body = {"type": "chunk", "data": {"frames": [array()], "fps": 20, "audio_b64": sound()}}
    chunk = reader().read(body)
    assert len(chunk.frames) == 1
    assert chunk.fps == 20
    assert chunk.audio is not None
    assert chunk.metadata == {"type": "chunk", "data": {"fps": 20}}


def test_media_at_the_top_hides_what_lies_below() -> None:
    """The top level wins, and both are stripped."""
    chunk = reader().read(
        {"frames": [array(value=1)], "data": {"frames": [array(value=2)], "x": 1}}
    )
    assert (chunk.frames[0] == 1).all()
    assert chunk.metadata == {"data": {"x": 1}}


def test_a_number_of_frames_is_metadata_and_stays() -> None:
    """``frames: 4`` is a count, with or without media beside it."""
    assert reader().read({"type": "status", "frames": 4}).metadata["frames"] == 4
    chunk = reader().read({"frames": 1, "frames_b64": [jpeg()]})
    assert len(chunk.frames) == 1
    assert chunk.metadata == {"frames": 1}


def test_a_status_chunk_holds_no_media() -> None:
    """Its fields are passed on as they are."""
    body = {"type": "status", "stage": "lease_queued", "queue_position": 2}
    chunk = reader().read(body)
    assert chunk.frames == ()
    assert chunk.audio is None
    assert chunk.metadata == body


def test_sound_is_pcm16_with_defaults() -> None:
    """48 kHz mono unless the chunk says otherwise."""
    audio = reader().read({"audio_b64": sound()}).audio
    assert audio is not None
    assert (audio.rate_hz, audio.pcm.shape) == (48_000, (4, 1))
    assert audio.pcm.dtype == np.int16
    stereo = {"audio_b64": sound(4, 2), "audio_sample_rate": 24_000, "audio_channels": 2}
    audio = reader().read(stereo).audio
    assert audio is not None
    assert (audio.rate_hz, audio.pcm.shape) == (24_000, (4, 2))
    assert audio.duration_s == 4 / 24_000


@pytest.mark.parametrize("fps", [0, -3, float("nan"), float("inf"), "16", None, True, 1e9, [16]])
def test_an_invalid_fps_is_the_default(fps: object) -> None:
    """As in the reference; no session ends for it."""
    assert reader().read({"frames": [array()], "fps": fps}).fps == DEFAULT_FPS


@pytest.mark.parametrize("fps", [16, 29.97, np.float32(24), np.int64(30)])
def test_a_valid_fps_is_taken(fps: float) -> None:
    """Whole or broken, numpy's numbers too."""
    assert reader().read({"fps": fps}).fps == pytest.approx(float(fps))


BAD = [
    (["no dict"], "must be a dict"),
    ({"frames": "abc"}, "must be a list of frames"),
    ({"frames": array()}, "must be a list of frames"),
    ({"frames": ["abc"]}, "Frame 0 is a str"),
    ({"frames": [array(), np.zeros((4, 8), np.uint8)]}, r"Frame 1 has shape \(4, 8\)"),
    ({"frames": [np.zeros((4, 8, 4), np.uint8)]}, "shape"),
    ({"frames": [np.zeros((4, 8, 3), np.float32)]}, "dtype float32"),
    ({"frames": [np.zeros((0, 8, 3), np.uint8)]}, "empty"),
    ({"frames_b64": jpeg()}, "must be a list"),
    ({"frames_b64": [17]}, "base64 string"),
    ({"frames_b64": ["%%%"]}, "no valid base64"),
    ({"frames_b64": ["ä"]}, "no valid base64"),
    ({"frames_b64": [base64.b64encode(b"hello").decode()]}, "no readable JPEG"),
    ({"frames_b64": [jpeg()[:200]]}, "no readable JPEG"),
    ({"audio_b64": 3}, "base64 string"),
    ({"audio_b64": base64.b64encode(b"abc").decode()}, "no multiple of 2"),
    ({"audio_b64": sound(3), "audio_channels": 2}, "no multiple of 4"),
    ({"audio_b64": sound(), "audio_sample_rate": 0}, "audio_sample_rate must be"),
    ({"audio_b64": sound(), "audio_sample_rate": -1}, "audio_sample_rate must be"),
    ({"audio_b64": sound(), "audio_sample_rate": 16}, "audio_sample_rate must be"),
    ({"audio_b64": sound(), "audio_sample_rate": "48000"}, "audio_sample_rate must be"),
    ({"audio_b64": sound(), "audio_channels": 0}, "audio_channels must be"),
    ({"audio_b64": sound(), "audio_channels": True}, "audio_channels must be"),
]


@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (2, 64), (64, 7), (7, 64), (16_384, 16), (16, 16_384)]
)
@pytest.mark.parametrize("level", ["top", "data"])
def test_frames_that_the_media_sdk_could_not_survive_or_show_are_refused(
    width: int, height: int, level: str
) -> None:
    """However they are given, in either worker mode: a side that rounds to 0 ends its process."""
    ways: list[dict[str, Any]] = [
        {"frames": [array(), array(width, height)]},
        {"frames": [array(), Image.new("RGB", (width, height))]},
        {"frames_b64": [jpeg(), jpeg(width, height)]},
    ]
    for body in ways:
        for read in (reader().read, decoded):
            with pytest.raises(BadChunk, match=rf"^Frame 1 is {width}x{height}; each side must"):
                read(body if level == "top" else {"data": body})


@pytest.mark.parametrize(("width", "height"), [(8, 8), (640, 360), (16_383, 8), (8, 16_383)])
def test_the_smallest_and_the_largest_frames_are_taken(width: int, height: int) -> None:
    """As they are."""
    (frame,) = reader().read({"frames": [array(width, height)]}).frames
    assert frame.shape == (height, width, 3)


@pytest.mark.parametrize(("width", "height"), [(641, 360), (640, 359), (17, 9), (16_379, 10)])
def test_nothing_is_cut_off_a_frame_of_odd_sides(width: int, height: int) -> None:
    """The media SDK cuts what is beyond a multiple of 4, so the edge goes on to the next one."""
    shown = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    (frame,) = reader().read({"frames": [shown]}).frames
    assert frame.shape[0] % 4 == frame.shape[1] % 4 == 0
    assert (frame[:height, :width] == shown).all()
    assert (frame[height:, :width] == shown[-1]).all()
    assert (frame[:height, width:] == shown[:, -1:]).all()
    assert frame.flags.c_contiguous
    assert frame.flags.writeable


@pytest.mark.parametrize(("chunk", "text"), BAD, ids=[text for _, text in BAD])
def test_whatever_is_wrong_is_said_clearly(chunk: object, text: str) -> None:
    """Each fault is a BadChunk whose text helps a service's author."""
    with pytest.raises(BadChunk, match=text):
        reader().read(chunk)


def test_size_and_sound_format_may_change() -> None:
    """From chunk to chunk, even within one: the tracks follow."""
    reading = reader()
    reading.read({"frames": [array()], "audio_b64": sound()})
    chunk = reading.read(
        {"frames": [array(), array(height=12)], "audio_b64": sound(), "audio_sample_rate": 24_000}
    )
    assert [frame.shape[0] for frame in chunk.frames] == [8, 12]
    assert chunk.audio is not None
    assert chunk.audio.rate_hz == 24_000


def test_a_chunk_lasts_as_long_as_the_longer_of_its_media() -> None:
    """Two pictures at 16 a second, or a second of sound."""
    assert reader().read({"frames": [array()] * 2, "fps": 16}).duration_s == 2 / 16
    long = {"frames": [array()], "audio_b64": sound(8000), "audio_sample_rate": 8000}
    assert reader().read(long).duration_s == 1.0


KEYS = ("type", "index", "fps", "frames", "frames_b64", "audio_b64", "data", "audio_channels")
VALUES = st.one_of(
    st.none(),
    st.integers(-2, 3),
    st.text(max_size=6),
    st.binary(max_size=6),
    st.lists(st.just(array()) | st.text(max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.integers() | st.lists(st.just(array()), max_size=2)),
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_every_chunk_is_read_or_refused(chunk: dict[str, object]) -> None:
    """Nothing else is raised, and no media is left in the metadata."""
    try:
        read = reader().read(chunk)
    except BadChunk:
        return
    levels = [read.metadata, read.metadata.get("data")]
    for level in levels:
        if isinstance(level, dict):
            assert not {"frames_b64", "audio_b64"} & set(level)
            assert not isinstance(level.get("frames"), (list, tuple))
