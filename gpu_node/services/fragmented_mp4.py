"""How are pictures taken out of an MP4 that is still being made?

A fragmented MP4 begins with ``ftyp`` and ``moov`` and goes on with pairs of ``moof`` and ``mdat``,
which may be cut anywhere on the way here. Each time some pairs are complete they are demuxed
behind the beginning, and their packets go to one decoder that lives as long as the stream: a
fragment needn't begin with a key frame. Fragments must count offsets from themselves
(``default-base-is-moof``), as streamed ones do. Everything here blocks.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import av
except ImportError as error:
    raise ImportError("it needs av; install it with: pip install 'greenroom[remote]'") from error

Picture = npt.NDArray[np.uint8]
MAX_BOX_BYTES = 256 * 2**20
_HEAD, _LONG_HEAD = 8, 16


class FragmentedMp4:
    """One stream's pictures, in order."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._beginning = b""
        self._pairs = b""
        self._moof = b""
        self._decoder: Any = None
        self.fps: float | None = None
        """Known with the first pictures, if the stream says so."""

    def feed(self, data: bytes) -> list[Picture]:
        """Return the pictures that have become complete.

        Raises:
            ValueError: This is no fragmented MP4, or its pictures can't be decoded.
        """
        self._waiting += data
        while box := self._next_box():
            self._sort(*box)
        if not self._pairs:
            return []
        pairs, self._pairs = self._pairs, b""
        try:
            return self._decoded(self._beginning + pairs)
        except av.FFmpegError as failed:
            raise ValueError(f"it can't be decoded: {failed.strerror}") from failed

    def flush(self) -> list[Picture]:
        """Return what the decoder still kept."""
        if self._decoder is None:
            return []
        try:
            return [frame.to_ndarray(format="rgb24") for frame in self._decoder.decode(None)]
        except av.FFmpegError:
            return []

    def _next_box(self) -> tuple[bytes, bytes] | None:
        """Cut the next whole box off; None until one is there."""
        if len(self._waiting) < _HEAD:
            return None
        size, kind = int.from_bytes(self._waiting[:4]), bytes(self._waiting[4:_HEAD])
        if size == 1:
            if len(self._waiting) < _LONG_HEAD:
                return None
            size = int.from_bytes(self._waiting[_HEAD:_LONG_HEAD])
        if not _HEAD <= size <= MAX_BOX_BYTES:
            raise ValueError(f"it has a part of {size} bytes")
        if len(self._waiting) < size:
            return None
        box = bytes(self._waiting[:size])
        del self._waiting[:size]
        return kind, box

    def _sort(self, kind: bytes, box: bytes) -> None:
        if kind == b"ftyp":
            self._beginning = box
            self._decoder = None
        elif kind == b"moov":
            self._beginning += box
        elif kind == b"moof":
            self._moof = box
        elif kind == b"mdat" and self._moof:
            self._pairs += self._moof + box
            self._moof = b""

    def _decoded(self, mp4: bytes) -> list[Picture]:
        with av.open(io.BytesIO(mp4), "r", format="mp4") as container:
            if not container.streams.video:
                raise ValueError("it has no pictures")
            stream = container.streams.video[0]
            if self._decoder is None:
                self._decoder = av.CodecContext.create(stream.codec_context.codec.name, "r")
                self._decoder.extradata = stream.codec_context.extradata
                rate = stream.guessed_rate or stream.average_rate
                self.fps = float(rate) if rate else None
            return [
                frame.to_ndarray(format="rgb24")
                for packet in container.demux(stream)
                if packet.size
                for frame in self._decoder.decode(packet)
            ]
