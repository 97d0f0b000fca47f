"""What does a runner need from a room?

A room is seen from one worker's side: it joins once, plays frames and sound, says what happens on
``tf.status``, and hands on what the controller says. Two things give it that: `livekit_room` and
the fake of the tests; one contract suite holds both to the same behaviour.

Callbacks are named in the request, before the join, and run on the event loop. They must not block.
``on_lost`` comes at most once and never after `Room.leave` was called: from then on the room takes
media and status in silence, and only `leave` is left to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shared.ids import WorkerIdentity
from shared.records import Presence

Frame = npt.NDArray[np.uint8]
"""(height, width, 3) uint8 RGB."""
Pcm = npt.NDArray[np.int16]
"""(samples, channels) int16."""


class Lost(StrEnum):
    """Why a worker isn't in its room any more, without having asked to leave."""

    SUPERSEDED = "superseded"
    """A worker of a higher (epoch, attempt) is in the room."""
    LEASE_LAPSED = "lease_lapsed"
    """The connection broke while the node lease didn't hold: left rather than come back (R1)."""
    ROOM_DELETED = "room_deleted"
    """Somebody deleted the room: the session is over."""
    REMOVED = "participant_removed"
    """Somebody removed this worker: a newer one or a replica, which take it for a leftover. Whether
    this or `SUPERSEDED` is told depends on who is faster."""
    DUPLICATE = "duplicate_identity"
    """Somebody else joined under this worker's identity."""
    SERVER_SHUTDOWN = "server_shutdown"
    """The media server is going down."""
    CONNECTION = "connection_lost"
    """The connection broke and couldn't be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """What a worker's connection carries, as the media engine counts it."""

    sent_bytes: int
    """Media since the join."""
    rtt_s: float | None
    """Round trip to the media server; None until it was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetStream:
    """A file that somebody in the room begins to send on ``tf.asset``."""

    stream_id: str
    name: str
    mime_type: str
    size_bytes: int | None
    """As the sender announced it; None if it didn't."""
    attributes: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    """Ends with the file; raises `ConnectionError` when the rest won't come."""
    close: Callable[[], None]
    """To be called by whoever doesn't read to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomEvents:
    """What a room tells its runner."""

    on_control: Callable[[str, bytes, str], None]
    """(sender identity, payload, topic), exactly as received: nothing is checked yet."""
    on_presence: Callable[[Presence], None]
    """Who is there changed. Also called once at the end of `Room.join`."""
    on_lost: Callable[[str], None]
    """The worker left the room without having asked to; a member of `Lost`."""
    on_outranked: Callable[[int], None] = lambda _epoch: None
    """A worker of this epoch is in the room, above this one's own; ``on_lost`` follows. Whether
    that one is right, only the registry knows."""
    on_arrival: Callable[[str], None] = lambda _identity: None
    """A participant (again) takes data from now on: what it should know can be said to it. A reload
    of the controller's page is an arrival too, though presence doesn't change by it."""
    on_asset: Callable[[str, AssetStream], None] = lambda _sender, stream: stream.close()
    """(sender identity, the stream), exactly as received: nothing is checked yet."""
    on_sound: Callable[[Pcm], None] = lambda _pcm: None
    """The controller said this: mono, at the rate that the request names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """One join of one worker."""

    session_id: str
    identity: WorkerIdentity
    """Fresh for each attempt: an identity that was once tried may still turn up as a ghost."""
    controller: str
    """Identity of the only participant whose controls count."""
    fps: int
    events: RoomEvents
    hear_hz: int = 0
    """Sample rate at which the controller is to be heard; 0: it isn't."""


class Room(Protocol):
    """One room, from one worker's side."""

    async def join(self) -> None:
        """Join, publish the video track and remove older workers; raises `RoomsUnavailable`."""
        ...

    def presence(self) -> Presence:
        """Who is there now, participants included that were there before the join."""
        ...

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Play one frame now. Without a word nothing happens while silent or not in the room."""
        ...

    async def fit_video(self, width: int, height: int) -> None:
        """Make sure that the video track is one for frames of this size.

        The first call of a join fixes it; another size gets a track of its own, and the old one
        goes. Raises `RoomsUnavailable`.
        """
        ...

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        """The same for sound; the first call makes the track."""
        ...

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """Queue sound; waits while more than 200 ms are queued."""
        ...

    def mute(self, silent: bool) -> None:
        """R2: while *silent*, no frame, sound or status leaves, and queued sound is dropped."""
        ...

    async def send_status(self, body: Mapping[str, object]) -> None:
        """Say *body* to all on ``tf.status``, reliably; trimmed to 15 KiB."""
        ...

    async def send_metrics(self, body: Mapping[str, object]) -> None:
        """Say *body* to all on ``tf.metrics``; what gets lost isn't sent again."""
        ...

    async def until_watched(self) -> None:
        """Return when somebody has subscribed to the video track."""
        ...

    async def link(self) -> LinkFacts | None:
        """What the connection carries; None while there is none."""
        ...

    async def leave(self) -> None:
        """Leave; bounded, and calling it again is fine."""
        ...


RoomFactory = Callable[[RoomRequest], Room]
