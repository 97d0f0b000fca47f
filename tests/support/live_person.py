"""How does a test play the controller or a viewer in a real room?

With LiveKit's own SDK, as a browser would. Only real frames are kept, those that carry metadata:
the black ones before the first capture carry none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import numpy as np
from livekit import rtc

from gpu_node.room import Pcm
from shared.room_protocol import ASSET_TOPIC, CONTROL_TOPIC
from shared.room_status import METRICS_TOPIC, STATUS_TOPIC
from tests.support.fake_room import SeenFrame

AUDIO_RATE_HZ = 48_000


class LivePerson:
    """A client that watches everything it can subscribe to; what it received is in its lists."""

    def __init__(self) -> None:
        self.frames: list[SeenFrame] = []
        self.statuses: list[dict[str, object]] = []
        self.metrics: list[dict[str, object]] = []
        self.tracks: list[str] = []
        """Names of the tracks that it has subscribed to, in order."""
        self.audio: list[tuple[int, Pcm]] = []
        self.room = rtc.Room()
        self._voice: rtc.AudioSource | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.room.on("track_subscribed", self._on_track)
        self.room.on("data_received", self._on_data)

    async def enter(self, url: str, token: str) -> None:
        """Connect."""
        await self.room.connect(url, token)

    async def say(self, body: object, topic: str = CONTROL_TOPIC) -> None:
        """Send JSON (or raw bytes) reliably."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.room.local_participant.publish_data(payload, reliable=True, topic=topic)

    async def send_file(
        self, data: bytes, name: str = "picture.png", attributes: dict[str, str] | None = None
    ) -> None:
        """Send a file on ``tf.asset``, as a page does: piece by piece, its size told first."""
        writer = await self.room.local_participant.stream_bytes(
            name,
            total_size=len(data),
            mime_type="image/png",
            attributes=attributes,
            topic=ASSET_TOPIC,
        )
        await writer.write(data)
        await writer.aclose()

    async def speak(self, pcm: Pcm, rate_hz: int) -> None:
        """Say something into the microphone, if that's allowed by now."""
        permissions = self.room.local_participant.permissions
        if not permissions.can_publish:
            return
        if self._voice is None:
            self._voice = rtc.AudioSource(rate_hz, 1)
            track = rtc.LocalAudioTrack.create_audio_track("microphone", self._voice)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            await self.room.local_participant.publish_track(track, options)
        await self._voice.capture_frame(rtc.AudioFrame(pcm.tobytes(), rate_hz, 1, len(pcm)))

    def of_type(self, type_: str) -> list[dict[str, object]]:
        """Statuses of one type, in order of arrival."""
        return [body for body in self.statuses if body.get("type") == type_]

    async def leave(self) -> None:
        """Disconnect."""
        await self.room.disconnect()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_track(
        self,
        track: rtc.Track,
        _publication: rtc.RemoteTrackPublication,
        who: rtc.RemoteParticipant,
    ) -> None:
        self.tracks.append(track.name)
        if isinstance(track, rtc.RemoteVideoTrack):
            self._run(self._watch(track, who.identity))
        else:
            self._run(self._listen(track))

    def _on_data(self, packet: rtc.DataPacket) -> None:
        if packet.topic == STATUS_TOPIC:
            self.statuses.append(json.loads(packet.data))
        elif packet.topic == METRICS_TOPIC:
            self.metrics.append(json.loads(packet.data))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

    async def _watch(self, track: rtc.Track, worker: str) -> None:
        stream = rtc.VideoStream(track, format=rtc.VideoBufferType.RGB24, capacity=8)
        try:
            async for event in stream:
                if event.metadata is None or not event.metadata.HasField("frame_id"):
                    continue
                frame = event.frame
                pixels = np.frombuffer(frame.data, dtype=np.uint8)
                image = pixels.reshape(frame.height, frame.width, 3).copy()
                self.frames.append(
                    SeenFrame(worker=worker, frame_id=event.metadata.frame_id, image=image)
                )
        finally:
            await stream.aclose()

    async def _listen(self, track: rtc.Track) -> None:
        stream = rtc.AudioStream(track, sample_rate=AUDIO_RATE_HZ, num_channels=1, capacity=100)
        try:
            async for event in stream:
                pcm = np.frombuffer(event.frame.data, dtype=np.int16).reshape(-1, 1)
                if pcm.any():  # silence fills the gaps
                    self.audio.append((event.frame.sample_rate, pcm.copy()))
        finally:
            await stream.aclose()
