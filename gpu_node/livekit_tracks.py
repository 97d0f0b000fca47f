"""How do frames and sound get onto LiveKit's tracks?

What the SDK forces on us (each measured):

- Until the first captured frame it sends black ones, 10 a second; frame metadata tells real frames
  apart. The track is published at the join, which saves 100 to 600 ms at the first frame.
- A too short frame buffer is accepted and read beyond its end, a sound queue whose length is no
  multiple of 10 ms ends the process, a capture after ``aclose`` raises: all are ruled out here.
- RGB24 is taken as red, green, blue, and costs a tenth of widening to RGBA in numpy first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from livekit import rtc
from livekit.rtc._proto.track_pb2 import FrameMetadataFeature
from livekit.rtc._proto.video_frame_pb2 import FrameMetadata
from livekit.rtc.participant import PublishTrackError

from gpu_node.room import Frame, Pcm
from shared.errors import BadChunk, RoomsUnavailable
from shared.rooms.tokens import redact

VIDEO_TRACK = "telefuser-output"
AUDIO_TRACK = "telefuser-audio"
VIDEO_BITRATE_BPS = 8_000_000
MIN_ADVERTISED_FPS = 30
AUDIO_QUEUE_MS = 200
AUDIO_PIECE_S = 0.1
PUBLISH_TIMEOUT_S = 8.0

_FIRST_SIZE = (640, 360)
"""Advertised until the first frame tells the real size; black until then."""
_BYTES_PER_PIXEL = 3


class LiveKitTracks:
    """The tracks of one worker in one room."""

    def __init__(self, room: rtc.Room, plays: Callable[[], bool]) -> None:
        self._room = room
        self._plays = plays
        self._video: rtc.VideoSource | None = None
        self._audio: rtc.AudioSource | None = None
        self._closed = False

    async def publish_video(self, fps: int) -> None:
        """Publish the video track, black as yet; raises `RoomsUnavailable`."""
        video = rtc.VideoSource(*_FIRST_SIZE)
        track = rtc.LocalVideoTrack.create_video_track(VIDEO_TRACK, video)
        options = rtc.TrackPublishOptions(
            source=rtc.TrackSource.SOURCE_CAMERA,
            video_codec=rtc.VideoCodec.VP8,
            simulcast=False,
            video_encoding=rtc.VideoEncoding(
                max_bitrate=VIDEO_BITRATE_BPS, max_framerate=max(fps, MIN_ADVERTISED_FPS)
            ),
            frame_metadata_features=[
                FrameMetadataFeature.FMF_USER_TIMESTAMP,
                FrameMetadataFeature.FMF_FRAME_ID,
            ],
        )
        await self._publish(track, options)
        self._video = video

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Play one frame now, with its number and the time of now on it."""
        if self._closed or self._video is None or not self._plays():
            return
        height, width = frame.shape[:2]
        buffer = frame.tobytes()
        if len(buffer) != height * width * _BYTES_PER_PIXEL:
            raise BadChunk(f"A frame of shape {frame.shape}, {frame.dtype} can't be played.")
        self._video.capture_frame(
            rtc.VideoFrame(width, height, rtc.VideoBufferType.RGB24, buffer),
            metadata=FrameMetadata(
                frame_id=frame_id & 0xFFFF_FFFF, user_timestamp=time.time_ns() // 1000
            ),
        )

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """Queue sound, in pieces so short that silence comes promptly."""
        channels = pcm.shape[1]
        if self._audio is None and self._plays():
            await self._publish_audio(sample_rate_hz, channels)
        piece_samples = max(1, int(sample_rate_hz * AUDIO_PIECE_S))
        for start in range(0, len(pcm), piece_samples):
            if self._closed or self._audio is None or not self._plays():
                return
            piece = pcm[start : start + piece_samples]
            await self._audio.capture_frame(
                rtc.AudioFrame(piece.tobytes(), sample_rate_hz, channels, len(piece))
            )

    def clear_audio(self) -> None:
        """Drop the sound that is queued."""
        if self._audio is not None and not self._closed:
            self._audio.clear_queue()

    async def aclose(self) -> None:
        """Free the sources; after the room was disconnected."""
        self._closed = True
        for source in (self._video, self._audio):
            if source is not None:
                await source.aclose()

    async def _publish_audio(self, sample_rate_hz: int, channels: int) -> None:
        audio = rtc.AudioSource(sample_rate_hz, channels, queue_size_ms=AUDIO_QUEUE_MS)
        track = rtc.LocalAudioTrack.create_audio_track(AUDIO_TRACK, audio)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await self._publish(track, options)
        self._audio = audio

    async def _publish(self, track: rtc.LocalTrack, options: rtc.TrackPublishOptions) -> None:
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                await self._room.local_participant.publish_track(track, options)
        except TimeoutError as late:
            raise RoomsUnavailable(why="a track wasn't published in time") from late
        except PublishTrackError as fault:
            raise RoomsUnavailable(why=redact(fault.message)) from fault
