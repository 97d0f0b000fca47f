"""What does a person's browser do in a room, as a program: join, watch, press keys?

A client made with the LiveKit SDK and nothing of ours, so that it believes only what arrives.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from livekit import rtc

Picture = np.ndarray[Any, np.dtype[np.int16]]

CONTROL_TOPIC, STATUS_TOPIC = "tf.control", "tf.status"
_THINNED = 6
"""Every n-th pixel in each direction is looked at."""
_BLACK_BELOW = 6.0
_KEPT = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One frame as it arrived; ``change`` is the mean difference to the frame before, 0 to 255."""

    at_s: float
    picture: Picture
    change: float


def difference(one: Picture, other: Picture) -> float:
    """Return the mean absolute difference of two pictures, 0 to 255."""
    if one.shape != other.shape:
        return 255.0
    return float(np.abs(one - other).mean())


class Player:
    """One participant: what it saw and what it was told."""

    def __init__(self) -> None:
        self.seen: deque[Seen] = deque(maxlen=_KEPT)
        self.real_frames = 0
        self.told: list[dict[str, Any]] = []
        self._room = rtc.Room()
        self._watching: set[asyncio.Task[None]] = set()
        self._seq = 0

    async def join(self, url: str, token: str) -> None:
        """Join and watch whatever video comes."""
        self._room.on("track_subscribed", self._on_track)
        self._room.on("data_received", self._on_data)
        await self._room.connect(url, token)

    async def leave(self) -> None:
        """Leave the room."""
        for task in self._watching:
            task.cancel()
        await self._room.disconnect()

    async def hold(self, *controls: str) -> int:
        """Say which keys are held now; returns the number by which it is acknowledged."""
        self._seq += 1
        body = {"type": "control_state", "controls": list(controls), "seq": self._seq}
        payload = json.dumps(body)
        await self._room.local_participant.publish_data(payload, reliable=True, topic=CONTROL_TOPIC)
        return self._seq

    def was_told(self, kind: str, **fields: object) -> bool:
        """Tell whether a status of this type and with these fields has come."""
        return any(
            status.get("type") == kind and all(status.get(k) == v for k, v in fields.items())
            for status in self.told
        )

    def _on_track(self, track: rtc.Track, *_: object) -> None:
        if track.kind == rtc.TrackKind.KIND_VIDEO:
            task = asyncio.create_task(self._watch(track))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

    def _on_data(self, packet: rtc.DataPacket) -> None:
        if packet.topic == STATUS_TOPIC:
            self.told.append(json.loads(packet.data))

    async def _watch(self, track: rtc.Track) -> None:
        stream = rtc.VideoStream(track, format=rtc.VideoBufferType.RGB24)
        try:
            async for event in stream:
                frame = event.frame
                pixels = np.frombuffer(frame.data, np.uint8)
                picture = pixels.reshape(frame.height, frame.width, 3)[::_THINNED, ::_THINNED]
                self._note(picture.astype(np.int16))
        finally:
            await stream.aclose()

    def _note(self, picture: Picture) -> None:
        if picture.mean() < _BLACK_BELOW:
            return  # what the SDK sends until the worker has drawn something
        change = difference(picture, self.seen[-1].picture) if self.seen else 0.0
        self.seen.append(Seen(at_s=time.monotonic(), picture=picture, change=change))
        self.real_frames += 1


async def until(condition: Callable[[], object], what: str, *, within_s: float = 15.0) -> None:
    """Wait for *condition*; a failure names *what* was waited for."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {within_s:.0f} s in vain: {what}")
        await asyncio.sleep(0.005)
