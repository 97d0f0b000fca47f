"""How does a worker hear its session's controller?

Only if the service wants to: then the controller is let speak as soon as it's there (its token may
have been made when nobody knew which service it would get), and the worker subscribes to its
microphone and to nothing else. The SDK resamples to the rate that the service asked for; a stream
ends with its track and begins anew with the next one, as after a reload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import structlog
from livekit import rtc

from gpu_node.room import RoomRequest
from shared.errors import RoomsUnavailable
from shared.rooms.admin import RoomAdmin

_log = structlog.get_logger()

_FRAME_MS = 20
_FRAMES_KEPT = 50
"""In the SDK, while the loop is busy; older ones go."""


class LiveKitEars:
    """One worker's ear for one person."""

    def __init__(
        self,
        room: rtc.Room,
        *,
        request: RoomRequest,
        admin: RoomAdmin,
        keep: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]],
    ) -> None:
        self._room = room
        self._controller = request.controller
        self._session_id = request.session_id
        self._rate_hz = request.hear_hz
        self._on_sound = request.events.on_sound
        self._admin = admin
        self._keep = keep
        self._hearing: dict[str, asyncio.Task[Any]] = {}
        """By the track's sid."""
        room.on("participant_connected", self._meet)
        room.on("track_published", self._on_published)
        room.on("track_subscribed", self._on_subscribed)
        room.on("track_unsubscribed", self._on_unsubscribed)

    def look_around(self) -> None:
        """Listen to whoever spoke before the join; nothing is told about that by events."""
        for who in self._room.remote_participants.values():
            self._meet(who)
            for publication in who.track_publications.values():
                self._on_published(publication, who)

    def close(self) -> None:
        """Hear nothing more."""
        for hearing in self._hearing.values():
            hearing.cancel()
        self._hearing.clear()

    def _meet(self, who: rtc.RemoteParticipant) -> None:
        if who.identity == self._controller:
            self._keep(self._let_speak())

    async def _let_speak(self) -> None:
        try:
            await self._admin.let_speak(self._session_id, self._controller)
        except RoomsUnavailable as fault:
            _log.warning("controller_not_let_speak", why=str(fault))

    def _on_published(
        self, publication: rtc.RemoteTrackPublication, who: rtc.RemoteParticipant
    ) -> None:
        if who.identity == self._controller and publication.kind == rtc.TrackKind.KIND_AUDIO:
            publication.set_subscribed(True)

    def _on_subscribed(
        self,
        track: rtc.Track,
        _publication: rtc.RemoteTrackPublication,
        who: rtc.RemoteParticipant,
    ) -> None:
        if who.identity == self._controller and isinstance(track, rtc.RemoteAudioTrack):
            self._hearing[track.sid] = self._keep(self._hear(track))

    def _on_unsubscribed(
        self,
        track: rtc.Track,
        _publication: rtc.RemoteTrackPublication,
        _who: rtc.RemoteParticipant,
    ) -> None:
        hearing = self._hearing.pop(track.sid, None)
        if hearing is not None:
            hearing.cancel()

    async def _hear(self, track: rtc.RemoteAudioTrack) -> None:
        stream = rtc.AudioStream(
            track,
            sample_rate=self._rate_hz,
            num_channels=1,
            frame_size_ms=_FRAME_MS,
            capacity=_FRAMES_KEPT,
        )
        try:
            async for event in stream:
                samples = np.frombuffer(event.frame.data, dtype=np.int16)
                self._on_sound(samples.reshape(-1, 1).copy())
        finally:
            await stream.aclose()
