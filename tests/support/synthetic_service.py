"""A model service whose behaviour a test sets, loaded from this file like anybody's service file.

Its sessions yield chunks of tiny grey frames whose brightness counts up. The session's config says
what goes wrong: ``fail_in`` is one of ``create``, ``config``, ``pull``, ``frame``, ``error_chunk``,
``half_character``, ``push``, ``close`` or ``process`` (then the node dies); ``chunks`` ends the
session by itself; ``hang_close`` blocks the clean-up until the test sets the event of `Journal`.
``sound_hz`` adds sound, ``change_at`` is the chunk from which pictures are larger and sound is of
another rate. ``tracks_frames`` asks for reports of the frames that leave.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FRAMES, FPS = 2, 50


@dataclass
class Journal:
    """What happened, for the test to look at; shared by all services of the process."""

    created: list[dict[str, Any]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    pushed: list[dict[str, Any]] = field(default_factory=list)
    threads: dict[str, int] = field(default_factory=dict)
    made: int = 0
    reports: list[tuple[str, int, int]] = field(default_factory=list)
    """(event, frames, sequence) of the publisher's reports."""
    may_close: threading.Event = field(default_factory=threading.Event)


class SyntheticService:
    """Bidirectional, with as many sessions as one likes."""

    warm_up = False  # the journal is about the test's own sessions

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._sessions: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._configs: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def create_session(self, config: dict[str, Any]) -> str:
        self._note("create_session")
        if config.get("fail_in") == "create":
            raise RuntimeError("no memory left for a world")
        if (
            config.get("fail_in") == "half_character"
        ):  # as a file's name may have, and UTF-8 may not
            raise RuntimeError("no file called w\udcffrld")
        if config.get("fail_in") == "process":
            os.kill(os.getpid(), signal.SIGKILL)
        if config.get("fail_in") == "config":
            raise ValueError("unknown key 'fail_in'")
        self.journal.created.append(config)
        name = f"pipeline-{len(self.journal.created)}"
        self._sessions[name] = asyncio.Queue()
        self._configs[name] = config
        return name

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        self._note("push_chunk")
        if session_id not in self._sessions:
            return
        if self._configs[session_id].get("fail_in") == "push":
            raise RuntimeError("no such key on this piano")
        self.journal.pushed.append(chunk)

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        self._note("pull_chunks")
        config = self._configs[session_id]
        for index in range(int(config.get("chunks", 1_000_000))):
            await asyncio.sleep(float(config.get("chunk_s", 0.0)))
            if index == 1 and config.get("fail_in") == "pull":
                raise RuntimeError("the world fell apart")
            if index == 1 and config.get("fail_in") == "error_chunk":
                yield {"type": "error", "error": "the model gave up"}
            self.journal.made += 1
            yield self._chunk(index, config)

    def enable_publisher_frame_tracking(self, session_id: str) -> bool:
        return bool(self._configs[session_id].get("tracks_frames"))

    def report_publisher_frame_progress(
        self,
        session_id: str,
        *,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_monotonic_seconds: float,
    ) -> bool:
        self.journal.reports.append((event, frames_delta, sequence))
        return True

    def runtime_metrics(self, session_id: str | None = None) -> dict[str, Any]:
        return {"active": session_id in self._sessions, "made": self.journal.made}

    def close_session(self, session_id: str) -> None:
        self._note("close_session")
        config = self._configs.get(session_id, {})
        if config.get("hang_close"):
            self.journal.may_close.wait()
        if config.get("fail_in") == "close":
            raise RuntimeError("the door is stuck")
        self._sessions.pop(session_id, None)
        self.journal.closed.append(session_id)

    def _chunk(self, index: int, config: dict[str, Any]) -> dict[str, Any]:
        changed = index >= config.get("change_at", 1_000_000)
        shape = (32, 24, 3) if changed else (16, 16, 3)
        if index == 1 and config.get("fail_in") == "frame":
            shape = (8, 8)  # type: ignore[assignment]
        frames = [
            np.full(shape, (index * FRAMES + offset) % 256, dtype=np.uint8)
            for offset in range(FRAMES)
        ]
        chunk = {"type": "chunk", "index": index, "fps": FPS, "frames": frames}
        if rate_hz := int(config.get("sound_hz", 0)) // (2 if changed else 1):
            pcm = np.full(rate_hz * FRAMES // FPS, 1 + index % 1000, dtype="<i2")
            chunk |= {
                "audio_b64": base64.b64encode(pcm.tobytes()).decode(),
                "audio_sample_rate": rate_hz,
            }
        return chunk

    def _note(self, method: str) -> None:
        self.journal.threads[method] = threading.get_ident()


def get_service() -> SyntheticService:
    """The entry point; `journal_of` finds the journal of a loaded one."""
    return SyntheticService(Journal())
