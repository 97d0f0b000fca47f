"""How do a service's chunks become pictures and sound that leave at the right time?

Chunk by chunk: check it (off the loop, since it may have to decode JPEGs), make the tracks fit its
formats, then do step by step what the pacer says, and say the chunk's metadata. While the worker
isn't audible the player stands still, so the service does too, and the clock starts anew
afterwards.
"""

from __future__ import annotations

import asyncio

import numpy as np

from gpu_node import metrics
from gpu_node.measures import Measures
from gpu_node.media import AudioClip, ChunkReader, MediaChunk
from gpu_node.pacer import Pacer, QueueSound, ShowPicture
from gpu_node.reactions import Reactions
from gpu_node.services.hosting import Chunks
from gpu_node.services.stream import LEASE_WAIT
from gpu_node.stage import Stage
from shared.clock import Clock
from shared.errors import BadChunk, ServiceFault
from shared.room_status import StatusWriter, Transport

MOST_FORMAT_CHANGES = 32
"""Each one is a new track; a service that changes its format all the time is broken."""


class Playout:
    """Plays one pipeline session on one stage."""

    def __init__(
        self,
        stage: Stage,
        *,
        status: StatusWriter,
        reactions: Reactions,
        default_fps: float,
        clock: Clock,
    ) -> None:
        self._stage = stage
        self._reactions = reactions
        self._status = status
        self._clock = clock
        self._reader = ChunkReader(default_fps)
        self._pacer = Pacer()
        self._formats: dict[str, tuple[int, int]] = {}
        self._format_changes = 0
        self.measures = Measures(clock.monotonic_s())
        self.chunks_played = 0
        self.frames_played = 0
        self.frames_taken = 0
        """Frames of all chunks that the service has handed over."""

    async def play(self, chunks: Chunks) -> None:
        """Play until the service is done.

        Raises:
            BadChunk: A chunk's media can't be published.
            ServiceFault: The service failed, or said so itself.
        """
        asked_s = self._now_s()
        async for raw in chunks:
            waited_s = self._now_s() - asked_s
            chunk = await asyncio.to_thread(self._reader.read, raw)
            match chunk.type:
                case "done":
                    return
                case "error":
                    raise ServiceFault(_error_text(chunk))
                case "status":
                    self.measures.stage(chunk.metadata.get("stage"), self._now_s())
                    self._stage.say(self._status.stage(chunk.metadata))
                case _:
                    made_in_s = chunks.last_made_in_s
                    metrics.chunk_taken(waited_s, made_in_s)
                    lease_s = metrics.lease_waited(chunk.metadata.get(LEASE_WAIT))
                    metrics.chunk_due(lease_s + made_in_s, chunk.duration_s)
                    metrics.scheduled(chunk.metadata.get("scheduler"))
                    self._reactions.chunk(chunks.last_began_s)
                    self.measures.chunk(made_in_s=made_in_s, waited_s=waited_s, fps=chunk.fps)
                    self.frames_taken += len(chunk.frames)
                    chunks.needed_in(chunk.duration_s)
                    await self._play_chunk(chunk)
            asked_s = self._now_s()

    async def _play_chunk(self, chunk: MediaChunk) -> None:
        ready_at_s = started_at_s = self._wall_s()
        audio = chunk.audio
        if audio is not None:
            await self._fit_sound(audio)
        self._pacer.begin(
            self._now_s(),
            pictures=len(chunk.frames),
            fps=chunk.fps,
            samples=0 if audio is None else len(audio.pcm),
            rate_hz=1 if audio is None else audio.rate_hz,
        )
        first = True
        while await self._next_step():
            step = self._pacer.take(self._now_s())
            if isinstance(step, ShowPicture):
                await self._show(chunk, step)
            elif audio is not None:
                await self._queue(audio, step)
            if first:
                started_at_s, first = self._wall_s(), False
        self.chunks_played += 1
        played = Transport(
            decoded_ready_at_s=ready_at_s,
            publish_started_at_s=started_at_s,
            publish_finished_at_s=self._wall_s(),
            frames=len(chunk.frames),
        )
        self._stage.say(self._status.chunk(chunk.index, chunk.metadata, played))

    async def _next_step(self) -> bool:
        """Wait until the pacer's next step is due and may be taken; False at the chunk's end."""
        due_s = self._pacer.due_s()
        if due_s is None:
            return False
        # Also when late: other sessions of this node get their turn between two steps.
        await asyncio.sleep(max(0.0, due_s - self._now_s()))
        if not self._stage.check():
            await self._stage.until_audible()
            self._pacer.restart(self._now_s())
        return True

    async def _show(self, chunk: MediaChunk, picture: ShowPicture) -> None:
        frame = chunk.frames[picture.place]
        height, width = frame.shape[:2]
        if self._is_new_format("picture size", (width, height)):
            await self._stage.fit_video(width, height)
        self.frames_played += 1
        self._stage.capture(frame, self.frames_played)
        self.measures.frame(picture.late_s)
        metrics.frame_played(picture.late_s, self._status.session_id)
        metrics.reacted(self._reactions.picture())

    async def _queue(self, audio: AudioClip, sound: QueueSound) -> None:
        pcm = audio.pcm[sound.start : sound.end]
        if sound.silence:
            pause = np.zeros((sound.silence, pcm.shape[1]), dtype=pcm.dtype)
            pcm = np.concatenate((pause, pcm))
        self.measures.sound_queued_until_s = self._pacer.queued_until_s
        await self._stage.capture_audio(pcm, audio.rate_hz)

    async def _fit_sound(self, audio: AudioClip) -> None:
        """Have the track before the chunk's clock starts: making one takes a moment."""
        channels = audio.pcm.shape[1]
        if self._is_new_format("sound format", (audio.rate_hz, channels)):
            await self._stage.fit_audio(audio.rate_hz, channels)

    def _is_new_format(self, what: str, found: tuple[int, int]) -> bool:
        before = self._formats.get(what)
        if found == before:
            return False
        self._formats[what] = found
        self._format_changes += before is not None
        if self._format_changes > MOST_FORMAT_CHANGES:
            raise BadChunk(
                f"The service has changed its {what} too often: more than {MOST_FORMAT_CHANGES} "
                "changes in one session. Keep one format, or change it seldom."
            )
        return True

    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    def _wall_s(self) -> float:
        return self._clock.wall_ms() / 1000


def _error_text(chunk: MediaChunk) -> str:
    said = chunk.metadata.get("error") or chunk.metadata.get("message") or "no reason given"
    return f"The service ended the session: {said}"[:500]
