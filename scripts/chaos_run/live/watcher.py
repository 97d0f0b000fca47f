"""What does somebody in a real room see, and from whom?

A client made with LiveKit's own SDK, as a browser's is: it stays in the room with its one token and
watches every video that comes. Only real frames count, those that carry metadata: until a worker's
first frame the SDK sends black ones, which carry none. Each is noted with its time of arrival and
the worker that it came from; pictures aren't kept.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from livekit import rtc

from shared.ids import WorkerIdentity, parse_worker_identity
from shared.room_status import STATUS_TOPIC

_JOIN_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One real frame as it arrived."""

    at_ms: float
    """Wall clock, as the audit trail has it: all of it is one machine's."""
    sent_ms: float
    """When its worker played it; the same clock."""
    node_id: str
    order: tuple[int, int]
    """Epoch and attempt of the worker."""


class Watcher:
    """One controller in the room of its session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.frames: list[Arrival] = []
        """In the order of arrival."""
        self.told: list[str] = []
        """Types of the statuses that came."""
        self.is_out = False
        """It was put out, or lost its connection for good."""
        self._room = rtc.Room()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room.on("track_subscribed", self._on_track)
        self._room.on("data_received", self._on_data)
        self._room.on("disconnected", self._on_disconnected)

    async def join(self, url: str, token: str) -> None:
        """Enter; an SDK's connect must never be cancelled, so it's only waited for."""
        connecting = asyncio.ensure_future(self._room.connect(url, token))
        done, _ = await asyncio.wait({connecting}, timeout=_JOIN_WITHIN_S)
        if not done:
            raise TimeoutError(f"no connection within {_JOIN_WITHIN_S:g} s")
        connecting.result()

    async def leave(self) -> None:
        """Leave; again is fine."""
        self._room.off("disconnected", self._on_disconnected)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._room.disconnect()

    def was_told(self, types: Iterable[str]) -> bool:
        """Tell whether a status of each of these types has come."""
        return set(types) <= set(self.told)

    @property
    def player(self) -> Arrival | None:
        """The newest worker's first frame."""
        newest: Arrival | None = None
        for frame in self.frames:
            if newest is None or frame.order > newest.order:
                newest = frame
        return newest

    def has_seen(self, count: int, *, above: tuple[int, int] = (0, 0)) -> bool:
        """Tell whether so many frames of workers above an (epoch, attempt) have come."""
        return sum(frame.order > above for frame in self.frames) >= count

    def _on_track(
        self,
        track: rtc.Track,
        _publication: rtc.RemoteTrackPublication,
        who: rtc.RemoteParticipant,
    ) -> None:
        worker = parse_worker_identity(who.identity)
        if isinstance(track, rtc.RemoteVideoTrack) and worker is not None:
            self._run(self._watch(track, worker))

    def _on_data(self, packet: rtc.DataPacket) -> None:
        if packet.topic == STATUS_TOPIC:
            self.told.append(str(json.loads(packet.data).get("type")))

    def _on_disconnected(self, _reason: object) -> None:
        self.is_out = True

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    async def _watch(self, track: rtc.Track, worker: WorkerIdentity) -> None:
        stream = rtc.VideoStream(track, capacity=8)
        try:
            async for event in stream:
                if event.metadata is not None and event.metadata.HasField("frame_id"):
                    at_ms, sent_ms = time.time_ns() / 1e6, event.metadata.user_timestamp / 1e3
                    self.frames.append(Arrival(at_ms, sent_ms, worker.node_id, worker.order))
        finally:
            await stream.aclose()
