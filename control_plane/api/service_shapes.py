"""What do the answers of ``/v1/service/…`` look like?"""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from control_plane.api.bodies import Health


class _Service(Health):
    """Health as a service tells it that serves streams."""

    service_type: str
    transport: str


class ServiceHealth(_Service):
    """How the deployment does, whether it is ready, and what should be looked into."""

    ready: bool
    concerns: list[str]


class ServiceReady(_Service):
    """Whether a new session could be served from here."""

    ready: bool
    stopping: bool


class ServiceMetadata(_Service):
    """What is served here, and how much of it; null: no node has said so yet."""

    pipeline_file: str | None
    livekit_url: str
    num_workers: int
    max_sessions_per_worker: int | None
    closed: bool
    queue_size: int
    pools: list[str]
    configured_max_sessions_per_worker: Any
    control_idle_timeout: Any
    worker_mode: Any
    session_capacity: dict[str, dict[str, Any]] | None
    coming_up: dict[str, dict[str, Any]]


class ServiceNumbers(TypedDict):
    """The numbers for programs; ``pools`` is null while Redis is out."""

    service_type: str
    transport: str
    uptime_seconds: float
    livekit: Health
    serving: dict[str, Any]
    pools: list[dict[str, Any]] | None
