"""What would the SDK alone cost? A process that plays the same pictures into rooms, and no more.

Pixels are handed over as in the SDK's examples. Started by the benchmark: reads a line of JSON
(url, tokens, seconds) and prints one line when it plays and one with what it cost. ``w`` on the
control topic makes the next picture white.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import numpy as np
from livekit import rtc
from livekit.rtc._proto.track_pb2 import FrameMetadataFeature
from livekit.rtc._proto.video_frame_pb2 import FrameMetadata

from scripts.benchmarks.node.bench_service import FPS, HEIGHT, WIDTH, pictures
from shared.room_protocol import CONTROL_TOPIC

_BITRATE_BPS = 8_000_000


class RawRoom:
    """One room that is played into."""

    def __init__(self) -> None:
        self.frames = 0
        self._white = False
        self._room = rtc.Room()
        self._room.on("data_received", self._on_data)

    async def play(self, url: str, token: str) -> None:
        """Connect, publish a track as a node does, and play at the frame rate for ever."""
        await self._room.connect(url, token)
        source = rtc.VideoSource(WIDTH, HEIGHT)
        track = rtc.LocalVideoTrack.create_video_track("telefuser-output", source)
        options = rtc.TrackPublishOptions(
            source=rtc.TrackSource.SOURCE_CAMERA,
            video_codec=rtc.VideoCodec.VP8,
            simulcast=False,
            video_encoding=rtc.VideoEncoding(max_bitrate=_BITRATE_BPS, max_framerate=30),
            frame_metadata_features=[FrameMetadataFeature.FMF_FRAME_ID],
        )
        await self._room.local_participant.publish_track(track, options)
        shown = pictures()
        white = np.full_like(shown[0], 255)
        due_s = time.monotonic()
        while True:
            picture = white if self._white else shown[self.frames % len(shown)]
            source.capture_frame(
                rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGB24, picture.tobytes()),
                metadata=FrameMetadata(frame_id=self.frames),
            )
            self.frames += 1
            due_s = max(due_s + 1 / FPS, time.monotonic() - 1 / FPS)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    def _on_data(self, packet: rtc.DataPacket) -> None:
        if packet.topic == CONTROL_TOPIC:
            self._white = "w" in json.loads(packet.data)["controls"]


async def run(job: dict[str, Any]) -> None:
    """Play until the time is up."""
    rooms = [RawRoom() for _ in job["tokens"]]
    tasks = [
        asyncio.create_task(room.play(job["url"], token))
        for room, token in zip(rooms, job["tokens"], strict=True)
    ]
    while any(room.frames < FPS for room in rooms):
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
    print("plays", flush=True)
    await asyncio.sleep(job["settle_s"])
    began_s, used_s, frames = time.monotonic(), time.process_time(), sum(r.frames for r in rooms)
    await asyncio.sleep(job["seconds"])
    wall_s = time.monotonic() - began_s
    cost = {
        "frames_per_s": (sum(room.frames for room in rooms) - frames) / wall_s,
        "cores": (time.process_time() - used_s) / wall_s,
    }
    print(json.dumps(cost), flush=True)
    os._exit(0)  # the SDK's threads may abort a process that ends right after a disconnect


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.stdin.readline())))
