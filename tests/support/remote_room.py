"""How does a node's process play in rooms that another process keeps, without a media server?

The node's end of `scripts.chaos_run.venue`: one TCP connection per join, JSON lines both ways. It
does on the node's side what counts there: a muted worker sends nothing, a lost room takes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping

from gpu_node.room import Frame, LinkFacts, Lost, Pcm, RoomRequest
from shared.errors import RoomsUnavailable
from shared.records import Presence

_JOIN_WITHIN_S = 3.0


class RemoteVenue:
    """A room factory for one node."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, request: RoomRequest) -> RemoteRoom:
        return RemoteRoom(self._port, request)


class RemoteRoom:
    """One worker's room; see `gpu_node.room.Room`."""

    def __init__(self, port: int, request: RoomRequest) -> None:
        self._port = port
        self._request = request
        self._presence = Presence(connected=False, controller=False, participants=0)
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._here = False
        self._leaving = False
        self._silent = False

    async def join(self) -> None:
        """Connect and be let in."""
        try:
            async with asyncio.timeout(_JOIN_WITHIN_S):
                reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                self._say(
                    session=self._request.session_id,
                    controller=self._request.controller,
                    worker={
                        "node_id": self._request.identity.node_id,
                        "epoch": self._request.identity.epoch,
                        "attempt": self._request.identity.attempt,
                    },
                )
                await self._let_in(reader)
        except (OSError, TimeoutError, ValueError) as fault:
            raise RoomsUnavailable(why=type(fault).__name__) from fault
        self._listening = asyncio.create_task(self._listen(reader), name="remote room")

    def presence(self) -> Presence:
        """Who is there, as it was last told."""
        return self._presence

    def capture(self, frame: Frame, frame_id: int) -> None:
        """Show a frame: only its time travels."""
        if self._here and not self._silent:
            self._say(frame=time.monotonic())

    async def capture_audio(self, pcm: Pcm, sample_rate_hz: int) -> None:
        """The synthetic service makes no sound."""

    async def fit_video(self, width: int, height: int) -> None:
        """Pictures don't travel."""

    async def fit_audio(self, sample_rate_hz: int, channels: int) -> None:
        """Nor does sound."""

    async def send_metrics(self, body: Mapping[str, object]) -> None:
        """Nobody looks at them."""

    async def until_watched(self) -> None:
        """Somebody always watches."""

    async def link(self) -> LinkFacts | None:
        """Nothing is counted."""
        return None

    def mute(self, silent: bool) -> None:
        """Stop or resume whatever leaves."""
        self._silent = silent

    async def send_status(self, body: Mapping[str, object]) -> None:
        """Say it to everybody in the room."""
        if self._here and not self._silent:
            self._say(status=dict(body))

    async def leave(self) -> None:
        """Leave; again is fine."""
        self._leaving = True
        self._here = False
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()

    async def _let_in(self, reader: asyncio.StreamReader) -> None:
        """Read until the answer to the join; who is there is told before it."""
        while not self._here:
            line = await reader.readline()
            if not line:
                raise ConnectionResetError
            news = json.loads(line)
            if "refused" in news:
                raise RoomsUnavailable(why=str(news["refused"]))
            if "joined" in news:
                self._here = True
                self._see(news["joined"])
            self._hear(news)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                self._hear(json.loads(line))
        self._lose(Lost.CONNECTION)

    def _hear(self, news: Mapping[str, object]) -> None:
        if "presence" in news:
            self._see(news["presence"])
            self._request.events.on_presence(self._presence)
        if "arrival" in news:
            self._request.events.on_arrival(str(news["arrival"]))
        if "runs" in news:
            self._say(runs=True)
        if "lost" in news:
            self._lose(Lost(str(news["lost"])))

    def _see(self, told: object) -> None:
        if isinstance(told, list):
            connected, controller, participants = told
            self._presence = Presence(
                connected=connected, controller=controller, participants=participants
            )

    def _lose(self, reason: Lost) -> None:
        if self._leaving or not self._here:
            return
        self._here = False
        self._request.events.on_lost(reason)

    def _say(self, **news: object) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(news).encode() + b"\n")
