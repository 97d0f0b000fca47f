"""How do a service's chunks become frames that leave at the right time?

Chunk by chunk: check it (off the loop, since it may have to decode JPEGs), play its frames by the
next-frame clock with its sound spread between them, say its metadata. While the worker isn't
audible the player stands still, so the service does too, and the clock starts anew afterwards.
"""

from __future__ import annotations

import asyncio
import itertools

from gpu_node import metrics
from gpu_node.media import AudioClip, ChunkReader, MediaChunk
from gpu_node.pacer import Pacer
from gpu_node.room import Frame
from gpu_node.services.stream import ChunkStream
from gpu_node.stage import Stage
from shared.clock import Clock
from shared.errors import ServiceFault
from shared.room_status import StatusWriter, Transport


class Playout:
    """Plays one pipeline session on one stage."""

    def __init__(
        self, stage: Stage, *, status: StatusWriter, default_fps: float, clock: Clock
    ) -> None:
        self._stage = stage
        self._status = status
        self._clock = clock
        self._reader = ChunkReader(default_fps)
        self._pacer = Pacer()
        self.chunks_played = 0
        self.frames_played = 0

    async def play(self, chunks: ChunkStream) -> None:
        """Play until the service is done.

        Raises:
            BadChunk: A chunk's media can't be published.
            ServiceFault: The service failed, or said so itself.
        """
        asked_s = self._clock.monotonic_s()
        async for raw in chunks:
            metrics.chunk_taken(self._clock.monotonic_s() - asked_s)
            chunk = await asyncio.to_thread(self._reader.read, raw)
            match chunk.type:
                case "done":
                    return
                case "error":
                    raise ServiceFault(_error_text(chunk))
                case "status":
                    self._stage.say(self._status.stage(chunk.metadata))
                case _:
                    chunks.needed_in(len(chunk.frames) / chunk.fps)
                    await self._play_chunk(chunk)
            asked_s = self._clock.monotonic_s()

    async def _play_chunk(self, chunk: MediaChunk) -> None:
        ready_at_s = started_at_s = self._wall_s()
        sound = _slices(chunk.audio, max(1, len(chunk.frames)))
        for place, (frame, clip) in enumerate(itertools.zip_longest(chunk.frames, sound)):
            if frame is not None:
                await self._play_frame(frame, chunk.fps)
            if place == 0:
                started_at_s = self._wall_s()
            if clip is not None:
                await self._stage.capture_audio(clip.pcm, clip.rate_hz)
        self.chunks_played += 1
        played = Transport(
            decoded_ready_at_s=ready_at_s,
            publish_started_at_s=started_at_s,
            publish_finished_at_s=self._wall_s(),
            frames=len(chunk.frames),
        )
        self._stage.say(self._status.chunk(chunk.index, chunk.metadata, played))

    async def _play_frame(self, frame: Frame, fps: float) -> None:
        if not self._stage.check():
            await self._stage.until_audible()
            self._pacer.restart()
        due_s = self._pacer.due_s(self._clock.monotonic_s(), fps)
        # Also when late: other sessions of this node get their turn between two frames.
        await asyncio.sleep(max(0.0, due_s - self._clock.monotonic_s()))
        self.frames_played += 1
        self._stage.capture(frame, self.frames_played)
        metrics.frame_played(max(0.0, self._clock.monotonic_s() - due_s))

    def _wall_s(self) -> float:
        return self._clock.wall_ms() / 1000


def _slices(audio: AudioClip | None, count: int) -> list[AudioClip]:
    """Cut sound into *count* parts that differ by at most one sample."""
    if audio is None:
        return []
    bounds = [len(audio.pcm) * place // count for place in range(count + 1)]
    return [
        AudioClip(pcm=audio.pcm[start:end], rate_hz=audio.rate_hz)
        for start, end in itertools.pairwise(bounds)
        if end > start
    ]


def _error_text(chunk: MediaChunk) -> str:
    said = chunk.metadata.get("error") or chunk.metadata.get("message") or "no reason given"
    return f"The service ended the session: {said}"[:500]
