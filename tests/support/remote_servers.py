"""Small world servers that follow the public protocols of SGLang and of vLLM-Omni.

Both are `websockets` servers in this process, on a port of their own. They paint grey noise, which
no encoder makes small, so that few chunks fit into the network: bright, or dark while the prompt
has the word "night" in it or (SGLang's) an action is held. What is taken is made at once. What else
they do is said by `Habits`.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

import av
import msgpack
import numpy as np
from PIL import Image
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

BRIGHT, DARK = 200, 40
SEND_BUFFER_BYTES = 64 * 1024
Picture = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
ONE_MESSAGE_BYTES = 64 * 1024
"""From this size on SGLang sends header and pictures apart."""


@dataclass(slots=True, kw_only=True)
class Habits:
    """What a server does beside its duty."""

    size: tuple[int, int] = (96, 64)
    chunk_frames: int = 4
    fails_after: int | None = None
    """Chunks until it says `error_words`."""
    error_words: str = "CUDA out of memory"
    breaks_after: int | None = None
    """Chunks until its connection breaks without a word."""
    closes_after: int | None = None
    """Chunks until it closes the connection in order."""
    quiet_after: int | None = None
    """Chunks until nothing more comes."""
    refuses_events: bool = False
    status: HTTPStatus | None = None
    """It answers the handshake with this."""
    points_to: str | None = None
    never_answers: bool = False
    garbage: str | bytes | None = None
    """Said in the place of the first chunk."""


@dataclass(slots=True)
class Visit:
    """What a server knows of one session."""

    headers: Headers
    first: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    prompt: str = ""
    sent: int = 0
    """Chunks that were handed to the network."""
    stopped: bool = False
    gone: bool = False

    @property
    def shade(self) -> int:
        """How its pictures are painted now."""
        return DARK if self.actions or "night" in self.prompt else BRIGHT

    def picture(self, size: tuple[int, int]) -> Picture:
        """The next one."""
        noise = np.random.default_rng(self.sent).integers(-40, 40, (size[1], size[0], 3))
        return (self.shade + noise).astype(np.uint8)


Talk = Callable[[ServerConnection, Visit], Awaitable[None]]


class WorldServer:
    """The part that both have in common."""

    path: str
    _talk: Talk
    """From the first message on; set by each of the two."""

    def __init__(self, habits: Habits | None = None) -> None:
        self.habits = habits or Habits()
        self.visits: list[Visit] = []
        self._server: Server
        self._closing = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._session, "127.0.0.1", 0, compression=None, process_request=self._answer
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._server.close(close_connections=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"ws://127.0.0.1:{port}{self.path}"

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.habits.never_answers:
            await self._closing.wait()
        if self.habits.points_to is not None:
            response = connection.respond(HTTPStatus.FOUND, "over there")
            response.headers["Location"] = self.habits.points_to
            return response
        if self.habits.status is not None:
            return connection.respond(self.habits.status, f"no: {request.headers}")
        assert request.path == self.path
        return None

    async def _session(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        visit = Visit(connection.request.headers)
        self.visits.append(visit)
        try:
            system = connection.transport.get_extra_info("socket")
            system.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            await self._talk(connection, visit)
        except ConnectionClosed:
            pass
        finally:
            visit.gone = True

    async def _misbehave(self, connection: ServerConnection, visit: Visit) -> bool:
        """Do what is due now; whether that ends the session."""
        await asyncio.sleep(0)  # what fits into the network waits for nobody
        habits, sent = self.habits, visit.sent
        if habits.garbage is not None:
            await connection.send(habits.garbage)
        if sent == habits.quiet_after:
            await connection.wait_closed()
        if sent == habits.breaks_after:
            connection.transport.abort()
        if sent == habits.closes_after:
            await connection.close(1000, "session idle timeout")
        return connection.state.name != "OPEN"


class SGLangServer(WorldServer):
    """``/v1/realtime_video/generate``."""

    path = "/v1/realtime_video/generate"

    async def _talk(self, connection: ServerConnection, visit: Visit) -> None:
        visit.first = msgpack.unpackb(await connection.recv())
        assert visit.first["type"] == "init"
        assert isinstance(visit.first["prompt"], str)
        assert isinstance(visit.first.get("first_frame", b""), bytes)
        visit.prompt = visit.first["prompt"]
        await both(self._listen(connection, visit), self._generate(connection, visit))

    async def _listen(self, connection: ServerConnection, visit: Visit) -> None:
        async for message in connection:
            event = msgpack.unpackb(message)
            visit.events.append(event)
            if self.habits.refuses_events:
                await self._say(connection, {"type": "error", "content": "invalid event"})
            elif event["kind"] == "camera_actions":
                assert event["payload"]["mode"] == "state"
                visit.actions = event["payload"]["transitions"][-1]["actions"]
            elif event["kind"] == "prompt":
                visit.prompt = event["payload"]

    async def _generate(self, connection: ServerConnection, visit: Visit) -> None:
        for index in itertools.count():
            if await self._misbehave(connection, visit):
                return
            if index == self.habits.fails_after:
                words = f"error during generate loop: {self.habits.error_words}"
                await self._say(connection, {"type": "error", "content": words})
                await connection.close()
                return
            if index == visit.first.get("max_chunks"):
                await connection.close(1000, "generation complete")
                return
            await self._say_pictures(connection, visit, index)
            visit.sent += 1
            await self._say(connection, {"type": "chunk_stats", "chunk_index": index})

    async def _say_pictures(self, connection: ServerConnection, visit: Visit, index: int) -> None:
        width, height = self.habits.size
        header: dict[str, Any] = {
            "type": "frame_batch_header",
            "chunk_index": index,
            "num_frames": self.habits.chunk_frames,
            "width": width,
            "height": height,
        }
        picture = visit.picture(self.habits.size)
        kind = visit.first.get("realtime_output_format")
        if kind in ("jpeg", "webp"):
            buffer = io.BytesIO()
            Image.fromarray(picture).save(buffer, format=kind)
            pictures = [buffer.getvalue()] * self.habits.chunk_frames
            header |= {"content_type": f"image/{kind}", "encoding": kind}
            header["payload_lengths"] = [len(encoded) for encoded in pictures]
        elif kind == "raw":
            pictures = [picture.tobytes()] * self.habits.chunk_frames
            header |= {"content_type": "application/x-raw-rgb", "encoding": "raw"}
        else:
            pictures = [bytes(20_000)]
            header["content_type"] = "application/x-raw-rgb-delta-gzip"
        payload = b"".join(pictures)
        if len(payload) < ONE_MESSAGE_BYTES:
            await self._say(connection, {**header, "type": "frame_batch", "payload": payload})
        else:
            await self._say(connection, header)
            await connection.send(payload)

    async def _say(self, connection: ServerConnection, body: dict[str, Any]) -> None:
        await connection.send(msgpack.packb(body))


class VllmOmniServer(WorldServer):
    """``/v1/realtime/video``."""

    path = "/v1/realtime/video"

    async def _talk(self, connection: ServerConnection, visit: Visit) -> None:
        visit.first = json.loads(await connection.recv())
        assert (visit.first["type"], visit.first["format"]) == ("session.start", "m4s")
        visit.prompt = visit.first["prompt"]
        config = {key: visit.first[key] for key in ("fps", "prompt") if key in visit.first}
        await self._say(connection, {"type": "video.start", "format": "m4s", "config": config})
        await both(self._listen(connection, visit), self._generate(connection, visit))

    async def _listen(self, connection: ServerConnection, visit: Visit) -> None:
        async for message in connection:
            event = json.loads(message)
            visit.events.append(event)
            if event["type"] == "session.stop":
                visit.stopped = True
            elif event["type"] == "session.ping":
                await self._say(connection, {"type": "session.pong"})
            elif event["type"] == "session.interaction":
                await self._interact(connection, visit, event["interaction"])

    async def _interact(
        self, connection: ServerConnection, visit: Visit, interaction: dict[str, Any]
    ) -> None:
        event_id = interaction["event_id"]
        if self.habits.refuses_events:
            error = {"type": "error", "message": "Failed to apply interaction"}
            await self._say(connection, {**error, "event_id": event_id})
            return
        visit.prompt = interaction["event"]["prompt"]
        await self._say(connection, {"type": "session.interaction.queued", "event_id": event_id})

    async def _generate(self, connection: ServerConnection, visit: Visit) -> None:
        width, height = self.habits.size
        film = Muxer(width=width, height=height, fps=visit.first.get("fps", 16))
        while not visit.stopped and visit.sent * self.habits.chunk_frames < visit.first.get(
            "num_frames", 10**6
        ):
            if await self._misbehave(connection, visit):
                return
            if visit.sent == self.habits.fails_after:
                error = {"type": "error", "message": self.habits.error_words}
                await self._say(connection, error)
                await connection.close()
                return
            picture = visit.picture(self.habits.size)
            await self._say_video(connection, film.chunk([picture] * self.habits.chunk_frames))
            visit.sent += 1
        await self._say_video(connection, film.rest(), kind="trailer")
        done = {"type": "session.done", "chunks": visit.sent, "stopped": visit.stopped}
        await self._say(connection, done)
        await connection.close()

    async def _say_video(
        self, connection: ServerConnection, mp4: bytes, kind: str = "media"
    ) -> None:
        metadata = {"type": "video.chunk_metadata", "kind": kind, "byte_length": len(mp4)}
        await self._say(connection, metadata)
        await connection.send(mp4)

    async def _say(self, connection: ServerConnection, body: dict[str, Any]) -> None:
        await connection.send(json.dumps(body))


class Muxer:
    """Makes a fragmented MP4 bit by bit."""

    def __init__(self, *, width: int, height: int, fps: int) -> None:
        self._buffer = io.BytesIO()
        flags = "+frag_every_frame+empty_moov+default_base_moof"
        options = {"movflags": flags, "flush_packets": "1"}
        self._file = av.open(self._buffer, "w", format="mp4", options=options)
        self._stream = self._file.add_stream("libx264", rate=fps)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"preset": "ultrafast", "tune": "zerolatency"}
        self._taken = 0

    def chunk(self, pictures: Sequence[Picture]) -> bytes:
        """Return what these pictures have added."""
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            self._file.mux(self._stream.encode(frame))
        return self._added()

    def rest(self) -> bytes:
        """Return the end."""
        self._file.mux(self._stream.encode(None))
        self._file.close()
        return self._added()

    def _added(self) -> bytes:
        added = self._buffer.getvalue()[self._taken :]
        self._taken += len(added)
        return added


async def both(listening: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]) -> None:
    """Listen while working, and until the other side leaves."""
    listener = asyncio.create_task(listening)
    try:
        await work
        await listener
    finally:
        listener.cancel()
        await asyncio.wait({listener})


def pieces(data: bytes, length: int) -> Iterator[bytes]:
    """Cut *data* into pieces of a length."""
    return (data[at : at + length] for at in range(0, len(data), length))
