"""How does a server refuse, and what may the caller do about it? Pure.

Problem
├── Invalid        422, 413  the request must change
├── NotAllowed     401, 403  the key or session token isn't good for this
├── NotFound       404
├── Conflict       409       the session is in another state, or the key was used before
├── Refused        429       the line is full, or somebody asks too often
└── Unavailable    5xx       and nobody there; nothing is lost
SessionOver                  it ended while somebody waited for it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(eq=False, kw_only=True)
class Problem(Exception):
    """Something was refused."""

    status: int
    """The HTTP status; 0: nobody answered."""
    code: str
    """Stable; what programs should look at."""
    message: str
    """For people."""
    retryable: bool = False
    """The same call may be repeated."""
    retry_after_s: float | None = None
    detail: str = ""
    """The word or text of the compatible API: ``queue_full``, ``no_idle_worker`` and the like."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class Invalid(Problem):
    """The request must change."""


class NotAllowed(Problem):
    """The key or session token isn't good for this."""


class NotFound(Problem):
    """There is no such session (any more)."""


class Conflict(Problem):
    """The session is in another state, or the idempotency key was used for something else."""


class Refused(Problem):
    """Nobody can be taken in now, or somebody asks too often."""


class Unavailable(Problem):
    """The server, or what it needs, is out; nothing is lost."""


class SessionOver(Exception):
    """The session ended while somebody waited for it."""

    def __init__(self, *, status: str | None, reason: str | None, error: str | None) -> None:
        super().__init__(f"The session has ended: {reason or status or 'unknown'}.")
        self.status = status
        self.reason = reason
        self.error = error


_KINDS: Mapping[int, type[Problem]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Invalid,
    429: Refused,
}
_GATEWAY_STATUSES = frozenset((502, 503, 504))


def problem_of(status: int, body: object, retry_after: str | None) -> Problem:
    """Return what an answer that isn't a success says; *body* is its JSON, None if it has none.

    What stands in front of a server answers without problem details; its status must do.
    """
    told = body if isinstance(body, dict) else {}
    kind = _KINDS.get(status, Unavailable if status >= 500 else Problem)
    return kind(
        status=status,
        code=str(told.get("code", f"http_{status}")),
        message=str(told.get("message", f"The server answered {status}.")),
        retryable=bool(told.get("retryable", status in _GATEWAY_STATUSES)),
        retry_after_s=_seconds(retry_after),
        detail=str(told.get("detail", "")),
    )


def unreachable(why: str) -> Unavailable:
    """Return the problem that nobody answers."""
    return Unavailable(
        status=0, code="unreachable", message=f"The server can't be reached: {why}.", retryable=True
    )


def _seconds(retry_after: str | None) -> float | None:
    try:
        seconds = float(retry_after or "")
    except ValueError:  # a date: ours never sends one
        return None
    return seconds if 0 <= seconds < 3600 else None
