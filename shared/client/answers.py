"""What does a program get from a server? Pure.

Fields that a later release adds are ignored; one that is missing is an error here and not later.
Times are float Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

ENDED = frozenset(("closed", "failed", "expired"))
ON_STAGE = frozenset(("assigned", "joining_room", "starting_pipeline", "running"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Read an answer; raises `KeyError` if it isn't one of this kind."""
        return cls(**{one.name: told[one.name] for one in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(_Answer):
    """A session of one's own; keep `session_token` to find it again after a restart."""

    session_id: str
    session_token: str
    """Good for everything about this session, and for nothing else."""
    room: str
    livekit_url: str
    token: str | None
    """To join the room with; None if the session has ended."""
    status: str
    worker_id: str | None
    expires_at: float | None
    queue_position: int | None
    estimated_wait_s: float | None
    idempotent_replay: bool
    """It is the session that an earlier call with the same key has made."""

    def __repr__(self) -> str:
        return f"Session({self.session_id}, {self.status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(_Answer):
    """How a session stands."""

    session_id: str
    status: str
    node_id: str | None
    created_at: float
    updated_at: float
    expires_at: float | None
    participant_count: int
    error: str | None
    reason: str | None
    queue_position: int | None
    estimated_wait_s: float | None
    attempt: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(_Answer):
    """A token to join a room with."""

    session_id: str
    room: str
    livekit_url: str
    token: str
    role: str

    def __repr__(self) -> str:
        return f"Token({self.session_id}, {self.role})"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that a session's client is told."""

    event: str
    """``queued``, ``assigned``, ``state``, ``requeued``, ``resumed``, ``ended``."""
    status: str | None
    """None: nobody knows the session any more."""
    position: int | None = None
    eta_s: float | None = None
    reason: str | None = None
    error: str | None = None
    node_id: str | None = None

    @classmethod
    def of_event(cls, event: str, told: Mapping[str, Any]) -> Self:
        """Read an event of the stream."""
        return cls(
            event=event,
            status=told.get("status"),
            position=told.get("position"),
            eta_s=told.get("eta"),
            reason=told.get("reason"),
            error=told.get("error"),
            node_id=told.get("node_id"),
        )

    @classmethod
    def of_status(cls, now: Status) -> Self:
        """Say the same of a session that was asked for."""
        word = {"queued": "queued", "assigned": "assigned"}.get(now.status, "state")
        return cls(
            event="ended" if now.status in ENDED else word,
            status=now.status,
            position=now.queue_position,
            eta_s=now.estimated_wait_s,
            reason=now.reason,
            error=now.error,
            node_id=now.node_id,
        )

    @property
    def is_last(self) -> bool:
        """Nothing comes after it."""
        return self.event == "ended" or self.status in ENDED
