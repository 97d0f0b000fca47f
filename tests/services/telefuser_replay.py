"""A server push service as somebody writes one for the reference, who has never heard of us.

From its contract alone: PyAV decodes a film (made at the start if there is none), cv2 scales and
encodes its pictures, the sound goes along as PCM. No base class, no import of ours, no hook.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

try:
    from telefuser.service.webrtc.track import AUDIO_SAMPLE_RATE  # type: ignore[import-not-found]
except ImportError:
    AUDIO_SAMPLE_RATE = 48000

FPS = 24
SIZE = (320, 192)
FRAMES_PER_CHUNK = 6


class VideoReplayService:
    """Replays one film to whoever asks, from its beginning."""

    def __init__(self, gpu_num: int = 1) -> None:
        self.gpu_num = gpu_num
        self.video_path: Path | None = None
        self.requests: list[dict[str, Any]] = []

    def start(self) -> None:
        """Make the film."""
        self.video_path = Path(tempfile.mkdtemp()) / "replay.mp4"
        with av.open(str(self.video_path), "w") as container:
            stream = container.add_stream("mpeg4", rate=FPS)
            stream.width, stream.height = 160, 96
            stream.pix_fmt = "yuv420p"
            for index in range(24):
                image = np.zeros((96, 160, 3), np.uint8)
                image[:, : 6 * (index + 1)] = (40 + 8 * index, 90, 160)
                frame = av.VideoFrame.from_ndarray(image, format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))

    def stop(self) -> None:
        """Throw the film away."""
        if self.video_path is not None:
            self.video_path.unlink(missing_ok=True)
            self.video_path.parent.rmdir()

    async def serve(self, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the film in chunks, then say that it's done."""
        self.requests.append(request)
        yield {"type": "status", "stage": "opening", "timestamp": time.time()}
        index = 0
        frames: list[str] = []
        with av.open(str(self.video_path)) as container:
            for frame in container.decode(video=0):
                frames.append(self._encode(frame))
                if len(frames) == FRAMES_PER_CHUNK:
                    yield self._chunk(index, frames)
                    index, frames = index + 1, []
                    await asyncio.sleep(0)
        yield {"type": "done", "total_chunks": index}

    def _encode(self, frame: av.VideoFrame) -> str:
        image = cv2.resize(frame.to_ndarray(format="bgr24"), SIZE, interpolation=cv2.INTER_AREA)
        ok, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])
        if not ok:
            raise RuntimeError("the frame can't be encoded")
        return base64.b64encode(jpeg.tobytes()).decode("ascii")

    def _chunk(self, index: int, frames: list[str]) -> dict[str, Any]:
        samples = AUDIO_SAMPLE_RATE * len(frames) // FPS
        moments = (index * samples + np.arange(samples)) / AUDIO_SAMPLE_RATE
        tone = (6000 * np.sin(2 * np.pi * 440 * moments)).astype("<i2")
        return {
            "type": "chunk",
            "index": index,
            "fps": FPS,
            "timestamp": time.time(),
            "frames_b64": frames,
            "num_frames": len(frames),
            "resolution": f"{SIZE[0]}x{SIZE[1]}",
            "audio_b64": base64.b64encode(tone.tobytes()).decode("ascii"),
            "audio_sample_rate": AUDIO_SAMPLE_RATE,
            "audio_channels": 1,
        }


def get_service(gpu_num: int = 1) -> VideoReplayService:
    """The entry point."""
    return VideoReplayService(gpu_num)
