"""What do all worlds have in common that another server computes?

A bidirectional service without a model: ``pull_chunks`` opens the session's own connection, says
hello and hands on what it hears; nothing is heard ahead of the player but the two messages that
`gpu_node.services.remote_link` keeps. One task beside it tells the other server what the player
wants *now*: states that were over before they could be sent are never sent. A held key counts for
3 s after it was last named, so a player who is gone lets go. What is said in which words is the
business of a `Dialect`: `sglang_world.py`, `vllm_omni_world.py`.

When the session ends, for whatever reason, the other side is told and the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpu_node.services.remote_link import Closed, Link, Message, Remote, connected
from gpu_node.services.remote_start import Picture, Start, picture_file, read_start
from gpu_node.services.torch_world_wishes import held, pressed

DEFAULT_PROMPT = "A quiet landscape in the morning"
KEEPALIVE_S = 20.0
STOP_GRACE_S = 1.0
"""How long the other side may take to end by itself after the goodbye."""
Frame = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the player wants now."""

    prompt: str
    held: tuple[str, ...] = ()
    """Names of controls, as the page sent them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What one message of the other server means."""

    frames: Sequence[Frame] = ()
    fps: float = 0.0
    told: dict[str, Any] = field(default_factory=dict)
    """Beside the frames, for whoever reads the chunk."""
    notice: str | None = None
    """It refused something, and plays on."""
    fault: str | None = None
    """It's over because of this; follows the server's name in a sentence."""
    over: bool = False


class Dialect(Protocol):
    """How one session talks with its server; one message is read at a time."""

    keepalive: Message | None
    goodbye: Message | None
    ends_by_closing: bool
    """A close with code 1000 is the end of the world and no fault."""

    def hello(self) -> Message:
        """Return the first message."""
        ...

    def wish(self, wish: Wish) -> list[Message]:
        """Return what must be said so that *wish* comes true; nothing if it was said before."""
        ...

    def read(self, message: Message) -> Heard:
        """Understand a message; may decode for long, so it's called in a thread."""
        ...


@dataclass(slots=True)
class Session:
    """One player; written on the service loop only."""

    dialect: Dialect
    prompt: str
    keys: dict[str, float] = field(default_factory=dict)
    """Until when each counts."""
    stopped: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, chunk: dict[str, Any], now_s: float) -> None:
        """Apply one control message; what isn't known is ignored."""
        match chunk.get("type"):
            case "control_state" | "control":
                self.keys = pressed(self.keys, chunk, now_s)
            case "prompt":
                self.prompt = str(chunk.get("prompt") or self.prompt)
            case "stop":
                self.stopped = True
            case _:
                return
        self.changed.set()

    def wish(self, now_s: float) -> Wish:
        """What counts now."""
        return Wish(prompt=self.prompt, held=tuple(held(self.keys, now_s)))

    def lasts_s(self, now_s: float) -> float:
        """How long that stays so by itself."""
        return min((until - now_s for until in self.keys.values() if until > now_s), default=1e6)


class RemoteWorld:
    """The service."""

    def __init__(
        self,
        remote: Remote,
        dialect: Callable[[Start], Dialect],
        *,
        sessions: int = 1,
        image: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if sessions < 1:
            raise ValueError("sessions must be 1 or more")
        self._remote, self._dialect, self._clock = remote, dialect, clock
        self._image_path, self._capacity = image, sessions
        self._picture: Picture | None = None
        self._sessions: dict[str, Session] = {}

    def start(self) -> None:
        """Read the picture that everybody begins with, if there's one."""
        if self._image_path is not None:
            self._picture = picture_file(self._image_path)

    def stop(self) -> None:
        """Nothing is kept open beside the sessions."""

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Take as many as the operator says that the other server can."""
        self._capacity = min(max_sessions or self._capacity, self._capacity)
        return {"effective_capacity": self._capacity}

    def create_session(self, config: dict[str, Any]) -> str:
        """Check *config*; the other server hears of it when the first chunk is wanted."""
        start = read_start(config, prompt=DEFAULT_PROMPT, picture=self._picture)
        if len(self._sessions) >= self._capacity:
            raise RuntimeError(f"all {self._capacity} places are taken")
        session_id = f"remote-{uuid.uuid4().hex}"
        self._sessions[session_id] = Session(dialect=self._dialect(start), prompt=start.prompt)
        return session_id

    def has_session(self, session_id: str) -> bool:
        """Whether controls for this id still have an effect."""
        return session_id in self._sessions

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Take one control message; late and unknown ones have no effect."""
        if session := self._sessions.get(session_id):
            session.take(chunk, self._clock())

    def close_session(self, session_id: str) -> None:
        """Forget a session; its connection was closed when ``pull_chunks`` ended."""
        self._sessions.pop(session_id, None)

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Open the session's connection and yield what comes, until either side ends it."""
        session, index = self._sessions.get(session_id), 0
        if session is None:
            return
        async with connected(self._remote) as link, self._telling(session, link):
            over = False
            while not over:
                heard = await self._hear(session, link, has_played=index > 0)
                over = heard.over
                if heard.notice is not None:
                    yield {"type": "status", "stage": "world_notice", "message": heard.notice}
                if heard.frames and not session.stopped:
                    yield _chunk(heard, index)
                    index += 1
        yield {"type": "done", "index": index, "timestamp": time.time()}

    async def _hear(self, session: Session, link: Link, *, has_played: bool) -> Heard:
        remote = self._remote
        limit_s = remote.silence_timeout_s if has_played else remote.first_frame_timeout_s
        message = await link.hear(limit_s)
        if isinstance(message, Closed):
            ends = message.code == 1000 and session.dialect.ends_by_closing
            if session.stopped or ends:
                return Heard(over=True)
            raise remote.fault(message.words)
        heard = await asyncio.to_thread(session.dialect.read, message)
        if heard.fault is None:
            return heard
        if session.stopped:
            return Heard(over=True)
        raise remote.fault(heard.fault)

    @contextlib.asynccontextmanager
    async def _telling(self, session: Session, link: Link) -> AsyncIterator[None]:
        """Say hello, keep the other side informed meanwhile, and say goodbye."""
        await link.send(session.dialect.hello())
        teller = asyncio.create_task(self._tell(session, link), name="remote world wishes")
        try:
            yield
        finally:
            teller.cancel()
            await asyncio.wait({teller})
            await link.leave(None if session.stopped else session.dialect.goodbye)

    async def _tell(self, session: Session, link: Link) -> None:
        dialect, alive_until_s = session.dialect, self._clock() + KEEPALIVE_S
        while not session.stopped:
            session.changed.clear()
            now_s = self._clock()
            messages = dialect.wish(session.wish(now_s))
            if now_s >= alive_until_s:
                alive_until_s = now_s + KEEPALIVE_S
                messages += [dialect.keepalive] if dialect.keepalive is not None else []
            for message in messages:
                await link.send(message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(session.lasts_s(now_s), alive_until_s - now_s)):
                    await session.changed.wait()
        if dialect.goodbye is not None:
            await link.send(dialect.goodbye)
            await asyncio.sleep(STOP_GRACE_S)
        await link.hang_up()


def _chunk(heard: Heard, index: int) -> dict[str, Any]:
    height, width = heard.frames[0].shape[:2]
    return {
        "type": "chunk",
        "index": index,
        "fps": heard.fps,
        "frames": list(heard.frames),
        "num_frames": len(heard.frames),
        "resolution": f"{width}x{height}",
        "timestamp": time.time(),
        **heard.told,
    }
