"""Is this chunk valid, and what does it hold?

A model service yields dicts (the reference's chunk contract). Video is ``frames``, a list of PIL
images, (height, width, 3) uint8 arrays or PyAV-like frames, or ``frames_b64``, a list of JPEGs in
base64; a side has 8 to 16,383 pixels, and one that is no multiple of 4 is filled up by its edge. A
number under ``frames`` is a count and stays metadata. Sound is ``audio_b64``, little-endian PCM16.
Media may lie one level down under ``data`` when the top level has no frames.

Whatever is wrong raises `BadChunk` with a text that a service's author understands, and ends the
session. Frame size and sound format may change; the tracks follow. Frames are copied,
for a service may paint its next picture into the same array while they play.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from PIL import Image

from gpu_node.room import Frame, Pcm
from shared.errors import BadChunk

MAX_FPS = 240.0
DEFAULT_AUDIO_RATE_HZ = 48_000
AUDIO_RATES_HZ = range(8_000, 192_000 + 1)
AUDIO_CHANNELS = range(1, 2 + 1)
SIDES_PX = range(8, 16_383 + 1)
"""A side of 0 ends the media SDK's whole process; VP8 has no larger ones, and whoever watches would
see nothing."""
_SIDE_STEP_PX = 4
"""The SDK cuts what is beyond a multiple of this, so a side is filled up to the next one."""

_MEDIA_KEYS = ("frames", "frames_b64", "audio_b64")


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioClip:
    """Sound of one chunk."""

    pcm: Pcm
    """(samples, channels) int16."""
    rate_hz: int

    @property
    def duration_s(self) -> float:
        return len(self.pcm) / self.rate_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaChunk:
    """One valid chunk."""

    type: str
    """chunk, preview, status, error or done; a service may have words of its own."""
    index: object
    """The service's own number, passed on as it is."""
    frames: tuple[Frame, ...]
    fps: float
    audio: AudioClip | None
    metadata: dict[str, object]
    """The chunk without its media: what is said on tf.status."""

    @property
    def duration_s(self) -> float:
        """How long it plays."""
        return max(len(self.frames) / self.fps, self.audio.duration_s if self.audio else 0.0)


class ChunkReader:
    """Reads the chunks of one session."""

    def __init__(self, default_fps: float) -> None:
        self._default_fps = default_fps

    def read(self, chunk: object) -> MediaChunk:
        """Return *chunk* checked and taken apart, or raise `BadChunk`."""
        if not isinstance(chunk, Mapping):
            raise BadChunk(f"A chunk must be a dict, not {type(chunk).__name__}.")
        carrier = _carrier(chunk)
        frames = tuple(_copied(frame) for frame in _frames(carrier))
        audio = _audio(carrier if "audio_b64" in carrier else chunk)
        return MediaChunk(
            type=str(chunk.get("type", "chunk")),
            index=chunk.get("index"),
            frames=frames,
            fps=self._fps(carrier.get("fps", chunk.get("fps"))),
            audio=audio,
            metadata=_without_media(chunk),
        )

    def _fps(self, fps: object) -> float:
        if isinstance(fps, bool) or not isinstance(fps, numbers.Real):
            return self._default_fps
        value = float(fps)
        return value if math.isfinite(value) and 0 < value <= MAX_FPS else self._default_fps


def decoded(chunk: Mapping[str, object]) -> dict[str, object]:
    """Return *chunk* with each frame as an array, at its place; raises `BadChunk`.

    For a service in a process of its own, so that only pixels cross to the player. What is an array
    already isn't copied.
    """
    carrier = _carrier(chunk)
    changed = dict(carrier)
    if _is_list(carrier.get("frames")):
        changed["frames"] = list(_frames(carrier))
        changed.pop("frames_b64", None)
    elif frames := _frames(carrier):
        changed["frames_b64"] = list(frames)
    return changed if carrier is chunk else {**chunk, "data": changed}


def _carrier(chunk: Mapping[str, object]) -> Mapping[str, object]:
    """Return the level that holds the media: the top, or ``data`` when the top has no frames."""
    inner = chunk.get("data")
    if _is_list(chunk.get("frames")) or "frames_b64" in chunk or not isinstance(inner, Mapping):
        return chunk
    return inner if any(key in inner for key in _MEDIA_KEYS) else chunk


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _frames(carrier: Mapping[str, object]) -> tuple[Frame, ...]:
    raw = carrier.get("frames")
    if isinstance(raw, (list, tuple)):
        return tuple(_pixels(item, place) for place, item in enumerate(raw))
    if raw is not None and not isinstance(raw, numbers.Number):
        raise BadChunk(f"frames must be a list of frames or a count, not {type(raw).__name__}.")
    encoded = carrier.get("frames_b64")
    if encoded is None:
        return ()
    if not isinstance(encoded, (list, tuple)):
        raise BadChunk(f"frames_b64 must be a list, not {type(encoded).__name__}.")
    return tuple(_jpeg(item, place) for place, item in enumerate(encoded))


def _pixels(item: object, place: int) -> Frame:
    if isinstance(item, Image.Image):
        return _checked(np.asarray(item.convert("RGB")), place)
    if isinstance(item, np.ndarray):
        return _checked(item, place)
    to_ndarray = getattr(item, "to_ndarray", None)
    if to_ndarray is None:
        raise BadChunk(
            f"Frame {place} is a {type(item).__name__}; use a PIL image, a uint8 array of shape "
            "(height, width, 3) or a PyAV frame."
        )
    return _checked(to_ndarray(format="rgb24"), place)


def _checked(array: object, place: int) -> Frame:
    if not isinstance(array, np.ndarray) or array.shape[2:] != (3,):
        shape = getattr(array, "shape", type(array).__name__)
        raise BadChunk(f"Frame {place} has shape {shape}; it must be (height, width, 3), RGB.")
    if array.dtype != np.uint8:
        raise BadChunk(f"Frame {place} has dtype {array.dtype}; it must be uint8, 0 to 255.")
    if array.size == 0:
        raise BadChunk(f"Frame {place} is empty: shape {array.shape}.")
    height, width = array.shape[:2]
    if width not in SIDES_PX or height not in SIDES_PX:
        raise BadChunk(
            f"Frame {place} is {width}x{height}; each side must have {SIDES_PX[0]} to "
            f"{SIDES_PX[-1]} pixels."
        )
    return array


def _copied(frame: Frame) -> Frame:
    """Return a copy; a side that the SDK would cut goes on with the pixels of its edge."""
    more = [(0, -side % _SIDE_STEP_PX) for side in frame.shape[:2]]
    filled = [side + rest for side, (_, rest) in zip(frame.shape[:2], more, strict=True)]
    if not any(rest for _, rest in more) or max(filled) not in SIDES_PX:
        return np.array(frame, order="C")
    return np.pad(frame, (*more, (0, 0)), mode="edge")


def _jpeg(item: object, place: int) -> Frame:
    if isinstance(item, np.ndarray):  # decoded where the service lives
        return _checked(item, place)
    raw = _base64(item, f"Frame {place} of frames_b64")
    try:
        with Image.open(io.BytesIO(raw), formats=("JPEG",)) as image:
            return _checked(np.asarray(image.convert("RGB")), place)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as fault:
        raise BadChunk(f"Frame {place} of frames_b64 is no readable JPEG.") from fault


def _base64(item: object, what: str) -> bytes:
    if not isinstance(item, (str, bytes)):
        raise BadChunk(f"{what} must be a base64 string, not {type(item).__name__}.")
    try:
        return base64.b64decode(item, validate=True)
    except (binascii.Error, ValueError) as fault:
        raise BadChunk(f"{what} is no valid base64.") from fault


def _audio(carrier: Mapping[str, object]) -> AudioClip | None:
    encoded = carrier.get("audio_b64")
    if encoded is None:
        return None
    raw = _base64(encoded, "audio_b64")
    rate_hz = _count(carrier, "audio_sample_rate", DEFAULT_AUDIO_RATE_HZ, AUDIO_RATES_HZ)
    channels = _count(carrier, "audio_channels", 1, AUDIO_CHANNELS)
    if len(raw) % (2 * channels):
        raise BadChunk(
            f"audio_b64 holds {len(raw)} bytes, no multiple of {2 * channels} "
            f"({channels} channel(s) of 16 bit)."
        )
    if not raw:
        return None
    pcm = np.frombuffer(raw, dtype="<i2").astype(np.int16).reshape(-1, channels)
    return AudioClip(pcm=pcm, rate_hz=rate_hz)


def _count(carrier: Mapping[str, object], name: str, default: int, allowed: range) -> int:
    value = carrier.get(name)
    if value is None:
        return default
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or int(cast(int, value)) not in allowed:
        raise BadChunk(
            f"{name} must be a whole number from {allowed[0]} to {allowed[-1]}, not {value!r:.40}."
        )
    return int(cast(int, value))


def _without_media(chunk: Mapping[str, object]) -> dict[str, object]:
    kept = {str(key): value for key, value in chunk.items() if not _is_media(key, value)}
    inner = kept.get("data")
    if isinstance(inner, Mapping):
        kept["data"] = {
            str(key): value for key, value in inner.items() if not _is_media(key, value)
        }
    return kept


def _is_media(key: object, value: object) -> bool:
    if key == "frames":
        return not isinstance(value, numbers.Number)
    return key in _MEDIA_KEYS
