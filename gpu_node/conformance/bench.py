"""What does a check have at hand to try a service with?

The host that a node uses, the limits, and a few moves that most checks make. A check raises
`Failed` with what it saw and what to do; what it merely remarks it notes and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from gpu_node.media import ChunkReader, MediaChunk
from gpu_node.services.contract import ServiceMode
from gpu_node.services.host import ServiceHost
from gpu_node.services.stream import ChunkStream
from gpu_node.session_config import CONTROL_IDLE_TIMEOUT_S
from shared.errors import BadChunk, InvalidConfig

T = TypeVar("T")
_ANY_FPS = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long each thing may take, in seconds, for a patience of one."""

    patience: float = 1.0
    cycles: int = 50
    """Sessions that are made one after the other, to see what they leave behind."""
    start: float = 1800.0
    first_frame: float = 120.0
    next_frame: float = 60.0
    close: float = 10.0
    let_go: float = 60.0
    """For a close that isn't itself being checked."""
    create: float = 2.0
    push: float = 1.0
    block: float = 0.5

    def s(self, limit: float) -> float:
        """Return a limit for the patience that was asked for."""
        return limit * self.patience


class Failed(Exception):
    """The service failed a check."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice


class Skipped(Exception):
    """The check doesn't apply to this service."""


class Bench:
    """One loaded service and the moves that checks make with it."""

    def __init__(self, host: ServiceHost, limits: Limits, config: dict[str, Any]) -> None:
        self.host = host
        self.limits = limits
        self.capacity = 1
        self._config = config
        self._numbers = itertools.count(1)
        self.remarks: list[str] = []
        """Of the check that runs now."""

    @property
    def is_film(self) -> bool:
        """Whether it is a server push service."""
        return self.host.traits.mode is ServiceMode.SERVER_PUSH

    def remark(self, text: str) -> None:
        """Note something that is no failure."""
        if text not in self.remarks:
            self.remarks.append(text)

    def config(self) -> dict[str, Any]:
        """Return what a node would hand over, for a session of its own."""
        return {
            "session_id": f"check-{next(self._numbers)}",
            "control_idle_timeout": CONTROL_IDLE_TIMEOUT_S,
            **self._config,
        }

    async def create(self, config: dict[str, Any] | None = None) -> str:
        """Make a pipeline session."""
        try:
            return await self.within(
                self.limits.first_frame, "create_session()", self._create(config)
            )
        except InvalidConfig as error:
            raise Failed(
                str(error), "Give a config that it accepts with --config '{\"name\": …}'."
            ) from error

    async def _create(self, config: dict[str, Any] | None) -> str:
        session = await self.host.create_session(config or self.config())
        if self.host.traits.waits_for_control:
            await self.host.push(session, {"type": "control_state", "controls": []})
        return session

    async def play(self, config: dict[str, Any] | None = None) -> Playing:
        """Make a session and begin with its chunks, with a first control where one is needed."""
        playing = Playing(self, await self.create(config))
        if self.host.traits.waits_for_control:
            await self.host.push(playing.name, {"type": "control_state", "controls": []})
        return playing

    async def close(self, session: str) -> float:
        """Close a pipeline session and return how long it took; a slow close is its own check."""
        began_s = now_s()
        await self.within(
            self.limits.let_go,
            "close_session()",
            self.host.close_session(session),
            "End the session's threads and waits; let pull_chunks() end when it is cancelled.",
        )
        return now_s() - began_s

    async def within(self, limit: float, what: str, work: Awaitable[T], advice: str = "") -> T:
        """Return what *work* gives, or fail when it takes too long."""
        limit_s = self.limits.s(limit)
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            return task.result()
        raise Failed(f"{what} didn't return within {limit_s:g} s.", advice)

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Playing]:
        """A session that plays, closed at the end of the block."""
        playing = await self.play()
        yield playing
        await self.close(playing.name)


class Playing:
    """One session's chunks, read as a player reads them."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.name = name
        self._bench = bench
        self._reader = ChunkReader(_ANY_FPS)
        self.stream: ChunkStream = bench.host.chunks(name)
        self._has_begun = False

    async def frames(self) -> MediaChunk:
        """Return the next chunk with frames."""
        limits = self._bench.limits
        limit_s = limits.s(limits.next_frame if self._has_begun else limits.first_frame)
        try:
            async with asyncio.timeout(limit_s):
                chunk = await self._until_frames()
        except TimeoutError:
            which = "next" if self._has_begun else "first"
            raise Failed(
                f"The {which} chunk with frames didn't come within {limit_s:g} s.",
                "It must yield frames without a control; say with --config what else it needs.",
            ) from None
        self._has_begun = True
        return chunk

    async def _until_frames(self) -> MediaChunk:
        async for raw in self.stream:
            try:
                chunk = self._reader.read(raw)
            except BadChunk as error:
                raise Failed(
                    f"A chunk can't be played: {error}",
                    "Yield frames as PIL images, uint8 arrays (height, width, 3) or PyAV frames.",
                ) from error
            if chunk.type == "error":
                raise Failed(f"The service ended the session: {chunk.metadata.get('error')}")
            if chunk.type == "done":
                break
            if chunk.frames:
                return chunk
        raise Ended


class Ended(Exception):
    """The session is complete; a film may be short."""


def now_s() -> float:
    """Return monotonic seconds."""
    return time.monotonic()
