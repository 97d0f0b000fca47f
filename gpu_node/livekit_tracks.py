"""How do frames and sound get onto LiveKit's tracks?

What the SDK forces on us (each measured):

- Until the first captured frame it sends black ones, 10 a second; frame metadata tells real frames
  apart. The track is published at the join, which saves 100 to 600 ms at the first frame.
- A too short frame buffer is accepted and read beyond its end, a sound queue whose length is no
  multiple of 10 ms ends the process, a capture after ``aclose`` raises: all are ruled out here.
- A publish must not be cancelled: its event comes all the same, and the SDK stumbles over a track
  that it doesn't know. So it runs to its end as a task of its own, or to the connection's.
- RGB24 is taken as red, green, blue, and costs a tenth of widening to RGBA in numpy first.
- A track is made for one size or sound format. Frames of another size get a new track, published
  before the old one goes, so that a page which follows tracks plays on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
from livekit import rtc
from livekit.rtc._proto.track_pb2 import FrameMetadataFeature
from livekit.rtc._proto.video_frame_pb2 import FrameMetadata
from livekit.rtc.participant import PublishTrackError, UnpublishTrackError

from gpu_node.room import Frame, LinkFacts, Pcm
from shared.errors import BadChunk, RoomsUnavailable
from shared.rooms.tokens import redact

VIDEO_TRACK = "telefuser-output"
AUDIO_TRACK = "telefuser-audio"
VIDEO_BITRATE_BPS = 8_000_000
MIN_ADVERTISED_FPS = 30
AUDIO_QUEUE_MS = 200
AUDIO_PIECE_S = 0.1
PUBLISH_TIMEOUT_S = 8.0
SETTLE_WITHIN_S = 1.0

_FIRST_SIZE = (640, 360)
"""Advertised until the first frame tells the real size; black until then."""
_BYTES_PER_PIXEL = 3


class LiveKitTracks:
    """The tracks of one worker in one room."""

    def __init__(
        self,
        room: rtc.Room,
        plays: Callable[[], bool],
        keep: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]],
    ) -> None:
        self._room = room
        self._plays = plays
        self._keep = keep
        self._fps = MIN_ADVERTISED_FPS
        self._video: rtc.VideoSource | None = None
        self._video_out: rtc.LocalTrackPublication | None = None
        self._size: tuple[int, int] | None = None
        """Of the frames that the present video track is for; None before the first one."""
        self._audio: rtc.AudioSource | None = None
        self._audio_out: rtc.LocalTrackPublication | None = None
        self._sources: list[rtc.VideoSource | rtc.AudioSource] = []
        """All that aren't closed; a sound source has a thread of its own."""
        self._publishing: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def publish_video(self, fps: int) -> None:
        """Publish the video track, black as yet; raises `RoomsUnavailable`."""
        self._fps = fps
        await self._publish_video(*_FIRST_SIZE)

    async def fit_video(self, width: int, height: int) -> None:
        """Have a track for frames of this size; see `gpu_node.room.Room`."""
        before, self._size = self._size, (width, height)
        if before not in (None, self._size) and self._plays():
            old, old_out = self._video, self._video_out
            await self._publish_video(width, height)
            await self._withdraw(old, old_out)

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Play one frame now, with its number and the time of now on it."""
        if self._closed or self._video is None or not self._plays():
            return
        height, width = frame.shape[:2]
        self._size = self._size or (width, height)
        buffer = _pixels(frame)
        if len(buffer) != height * width * _BYTES_PER_PIXEL:
            raise BadChunk(f"A frame of shape {frame.shape}, {frame.dtype} can't be played.")
        self._video.capture_frame(
            rtc.VideoFrame(width, height, rtc.VideoBufferType.RGB24, buffer),
            metadata=FrameMetadata(
                frame_id=frame_id & 0xFFFF_FFFF, user_timestamp=time.time_ns() // 1000
            ),
        )

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        """Have a track for sound of this format."""
        old, old_out = self._audio, self._audio_out
        if old is not None and (old.sample_rate, old.num_channels) == (sample_rate_hz, channels):
            return
        if self._plays():
            await self._publish_audio(sample_rate_hz, channels)
            await self._withdraw(old, old_out)

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """Queue sound, in pieces so short that silence comes promptly."""
        channels = pcm.shape[1]
        await self.fit_audio(sample_rate_hz, channels)
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

    async def until_watched(self) -> None:
        """Return when somebody has subscribed to the video."""
        if self._video_out is not None:
            await self._video_out.wait_for_subscription()

    async def link(self) -> LinkFacts | None:
        """What the media engine counts; None while there's no connection."""
        if self._closed or not self._plays():
            return None
        try:
            stats = await self._room.get_rtc_stats()
        except RuntimeError:  # the connection went away meanwhile
            return None
        sent_bytes, rtts_s = 0, []
        for one in stats.publisher_stats:
            match one.WhichOneof("stats"):
                case "outbound_rtp":
                    sent_bytes += one.outbound_rtp.sent.bytes_sent
                case "candidate_pair" if one.candidate_pair.candidate_pair.nominated:
                    rtts_s.append(one.candidate_pair.candidate_pair.current_round_trip_time)
        return LinkFacts(sent_bytes=sent_bytes, rtt_s=max(rtts_s, default=None))

    async def settle(self) -> None:
        """Let a publication under way end before the disconnect, or the SDK keeps its source."""
        if self._publishing:
            await asyncio.wait(set(self._publishing), timeout=SETTLE_WITHIN_S)

    async def aclose(self) -> None:
        """Free the sources; after the room was disconnected."""
        self._closed = True
        for publishing in set(self._publishing):  # without a connection some wait for ever
            publishing.cancel()
        for source in self._sources:
            await source.aclose()
        self._sources.clear()

    async def _publish_video(self, width: int, height: int) -> None:
        video = rtc.VideoSource(width, height)
        self._sources.append(video)
        track = rtc.LocalVideoTrack.create_video_track(VIDEO_TRACK, video)
        options = rtc.TrackPublishOptions(
            source=rtc.TrackSource.SOURCE_CAMERA,
            video_codec=rtc.VideoCodec.VP8,
            simulcast=False,
            video_encoding=rtc.VideoEncoding(
                max_bitrate=VIDEO_BITRATE_BPS, max_framerate=max(self._fps, MIN_ADVERTISED_FPS)
            ),
            frame_metadata_features=[
                FrameMetadataFeature.FMF_USER_TIMESTAMP,
                FrameMetadataFeature.FMF_FRAME_ID,
            ],
        )
        self._video_out = await self._publish(track, options)
        self._video = video

    async def _publish_audio(self, sample_rate_hz: int, channels: int) -> None:
        audio = rtc.AudioSource(sample_rate_hz, channels, queue_size_ms=AUDIO_QUEUE_MS)
        self._sources.append(audio)
        track = rtc.LocalAudioTrack.create_audio_track(AUDIO_TRACK, audio)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        self._audio_out = await self._publish(track, options)
        self._audio = audio

    async def _publish(
        self, track: rtc.LocalTrack, options: rtc.TrackPublishOptions
    ) -> rtc.LocalTrackPublication:
        publishing = self._keep(self._published(track, options))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
        await asyncio.wait({publishing}, timeout=PUBLISH_TIMEOUT_S)
        if not publishing.done() or publishing.cancelled():
            raise RoomsUnavailable(why="a track wasn't published in time")
        outcome: rtc.LocalTrackPublication | str = publishing.result()
        if isinstance(outcome, str):
            raise RoomsUnavailable(why=outcome)
        return outcome

    async def _published(
        self, track: rtc.LocalTrack, options: rtc.TrackPublishOptions
    ) -> rtc.LocalTrackPublication | str:
        """Return the publication, or what went wrong: perhaps nobody waits for it any more."""
        try:
            return await self._room.local_participant.publish_track(track, options)
        except PublishTrackError as fault:
            return redact(fault.message)

    async def _withdraw(
        self,
        source: rtc.VideoSource | rtc.AudioSource | None,
        publication: rtc.LocalTrackPublication | None,
    ) -> None:
        """Take an old track out of the room; if that fails it goes with the connection."""
        if source is None or publication is None:
            return
        withdrawing = self._keep(self._unpublished(publication.sid))
        self._publishing.add(withdrawing)
        withdrawing.add_done_callback(self._publishing.discard)
        await asyncio.wait({withdrawing}, timeout=PUBLISH_TIMEOUT_S)
        if source in self._sources:
            self._sources.remove(source)
            await source.aclose()

    async def _unpublished(self, sid: str) -> None:
        with contextlib.suppress(UnpublishTrackError):
            await self._room.local_participant.unpublish_track(sid)


def _pixels(frame: Frame) -> memoryview | bytes:
    """The bytes of *frame* without a copy of them, if it is laid out as the SDK wants it.

    That takes a view of a writable array of one dimension; of anything else the SDK makes a copy.
    It has read them when the capture returns.
    """
    if frame.flags.c_contiguous and frame.flags.writeable and frame.dtype == np.uint8:
        return frame.reshape(-1).data
    return frame.tobytes()
