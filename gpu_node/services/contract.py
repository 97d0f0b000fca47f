"""What must a model service offer?

A service file is plain Python with a function ``get_service``. What it returns is recognised by the
methods it has, bidirectional first, so a file needs no import from us. The threads:

==================  =====================================================================
``start``, ``stop``  a worker thread, once each; may block
``create_session``   the service loop's thread; quick
``push_chunk``       the service loop's thread; must not block, tolerates unknown ids
``pull_chunks``      iterated on the service loop; its end is the end of the session
``close_session``    a worker thread; may block
``serve``            a thread and an event loop of its own for each film; may block
==================  =====================================================================

All sessions share that one service loop, so a service may use asyncio objects across the three
calls in the middle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

Chunk = dict[str, Any]
"""What a service yields and takes: ``type``, ``frames``, ``fps``, …; checked in
`gpu_node.media`."""


@runtime_checkable
class Bidirectional(Protocol):
    """A world that is played: controls go in while frames come out."""

    def start(self) -> None:
        """Load weights and warm up."""
        ...

    def stop(self) -> None:
        """Let go of everything."""
        ...

    def create_session(self, config: dict[str, Any]) -> str:
        """Make one user's state from *config* and return its id."""
        ...

    def push_chunk(self, session_id: str, chunk: Chunk) -> None:
        """Take one control message for a session."""
        ...

    def pull_chunks(self, session_id: str) -> AsyncIterator[Chunk]:
        """Yield what the session produces, until it is complete."""
        ...

    def close_session(self, session_id: str) -> None:
        """Free everything that the session held."""
        ...


@runtime_checkable
class ServerPush(Protocol):
    """A film that is watched: one request, one stream of chunks."""

    def start(self) -> None:
        """Load weights and warm up."""
        ...

    def stop(self) -> None:
        """Let go of everything."""
        ...

    def serve(self, request: dict[str, Any]) -> AsyncIterator[Chunk]:
        """Yield the chunks that answer *request*."""
        ...


@runtime_checkable
class SizesItself(Protocol):
    """Optional: a service that knows how many sessions it can keep."""

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Fix the number of sessions, at most *max_sessions*; ``effective_capacity`` holds it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many sessions a service keeps at once, and how it came to that."""

    sessions: int
    profile: dict[str, Any] | None = None
    """What the service says of its memory, for people: ``session_capacity`` of the metadata."""


class ServiceMode(StrEnum):
    """Which of the two protocols a service keeps."""

    BIDIRECTIONAL = "bidirectional"
    SERVER_PUSH = "server_push"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTraits:
    """What a service declares of itself, besides its methods."""

    mode: ServiceMode = ServiceMode.BIDIRECTIONAL
    start_timeout_s: float = 0.0
    """Its own limit for starting a pipeline session; 0 without one."""
    waits_for_control: bool = False
    """Its sessions make nothing before their first control: they share the model by the execution
    lease, without a maximum hold."""
    hear_hz: int = 0
    """Sample rate at which it wants to hear its controller; 0: not at all."""
    warm_up: bool | dict[str, Any] | None = None
    """Whether a session of ours may warm it up, or with which config; None: it doesn't say."""


def mode_of(service: object) -> ServiceMode | None:
    """Return the protocol that *service* keeps, or None."""
    if isinstance(service, type):
        return None
    if isinstance(service, Bidirectional):
        return ServiceMode.BIDIRECTIONAL
    if isinstance(service, ServerPush):
        return ServiceMode.SERVER_PUSH
    return None


def missing_from(service: object) -> tuple[str, ...]:
    """Return the methods that *service* lacks: for server push if it has ``serve``, else for
    bidirectional.
    """
    plays = ("create_session", "push_chunk", "pull_chunks", "close_session")
    mode = ("serve",) if callable(getattr(service, "serve", None)) else plays
    return tuple(
        name for name in ("start", "stop", *mode) if not callable(getattr(service, name, None))
    )
