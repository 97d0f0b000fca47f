"""What does a node say of itself, once per life and while its service comes up?

Frozen copies of what ``n:<nid>`` holds, for people and programs; nothing is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProfile:
    """What a node says of itself once per life."""

    service: str
    """File name of the service, for people."""
    mode: str
    """bidirectional or server_push."""
    host: str
    pid: int
    release: str
    start_timeout_s: float = 0.0
    """The service's own limit for starting a pipeline session; 0: the session's applies."""
    session_capacity: dict[str, object] | None = None
    """How the service came to its number of sessions, for people; not part of a snapshot."""
    options: dict[str, object] = field(default_factory=dict)
    """How the node was set, as programs are told it; not part of a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgress:
    """How a node's service comes up; told while it does and after it failed."""

    step: str
    """validating, loading, starting, warming_up or failed; a newer release may know more."""
    seconds: float
    """Since the node began with it."""
    attempt: int = 1
    line: str = ""
    """The last line that the service wrote or logged."""
    error: str = ""
    """Why the last attempt failed, in the service's own words."""
