"""Which session may compute the next chunk?

Pure: it waits for nothing and has no clock of its own. See the package for the rules. Each call
says what happened and returns which sessions changed their state by it, in order; the caller wakes
exactly the one that became active. All changes of the holder are made in one place, `_settle`,
which runs at the end of each call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from gpu_node.lease.line import Line
from shared.states import Table, move


class LeaseState(StrEnum):
    """Where a session stands with the lease."""

    WAITING = "waiting"
    """No control has come yet."""
    QUEUED = "queued"
    """It wants its next chunk made and waits for its turn."""
    ACTIVE = "active"
    """It holds the lease: its chunk is being made, or it is between two."""
    PARKED = "parked"
    """It had the lease and gave it up; its slot and caches stay."""
    CLOSING = "closing"
    """It is ending. If it holds the lease, then until its clean-up is confirmed."""


_ENDS = {LeaseState.CLOSING: "the session closes"}
LEASE_MOVES: Table[LeaseState] = {
    LeaseState.WAITING: {LeaseState.QUEUED: "control, and room for a chunk", **_ENDS},
    LeaseState.QUEUED: {
        LeaseState.ACTIVE: "first in line, nobody holds it",
        LeaseState.PARKED: "it no longer waits",
        **_ENDS,
    },
    LeaseState.ACTIVE: {
        LeaseState.PARKED: "somebody else's turn, or nothing more to make",
        **_ENDS,
    },
    LeaseState.PARKED: {LeaseState.QUEUED: "control, and room for a chunk", **_ENDS},
    LeaseState.CLOSING: {},
}

LINGER_S = 0.05
"""Under a maximum hold: how long a holder that still has chunks left may take to want the next one
before the lease goes on to somebody who does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A session is now in *state*."""

    session_id: str
    state: LeaseState


@dataclass(slots=True, kw_only=True)
class _Member:
    idle_timeout_s: float
    heard_s: float
    """When its last control came."""
    state: LeaseState = LeaseState.WAITING
    has_news: bool = False
    """A control came since it last had a turn."""
    wants: bool = False
    """Its output has room and it waits for its next chunk, in line or not."""


@dataclass(slots=True, kw_only=True)
class _Hold:
    """One grant; there is one object of this kind or none, so there is one holder or none."""

    session_id: str
    busy_since_s: float
    """When its present chunk began."""
    is_busy: bool = True
    chunks: int = 0
    free_since_s: float = 0.0
    """When its last chunk ended."""


class ExecutionLease:
    """The lease of one model. Not thread-safe: one thread makes all calls."""

    def __init__(self, now_s: Callable[[], float], *, max_chunks: int | None = None) -> None:
        """Begin with nobody.

        Args:
            now_s: Monotonic seconds.
            max_chunks: After so many chunks it is somebody else's turn; None: after idling only.
        """
        if max_chunks is not None and max_chunks < 1:
            raise ValueError("a maximum hold is at least one chunk")
        self._now_s = now_s
        self._max_chunks = max_chunks
        self._members: dict[str, _Member] = {}
        self._line = Line()
        self._hold: _Hold | None = None
        self._closed = False
        self._changes: list[Change] = []

    @property
    def holder(self) -> str | None:
        """Who holds the lease, closing or not."""
        return self._hold.session_id if self._hold else None

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    @property
    def busy_s(self) -> float:
        """For how long the present chunk has been in the making; 0 without one."""
        hold = self._hold
        return self._now_s() - hold.busy_since_s if hold and hold.is_busy else 0.0

    @property
    def deadline_s(self) -> float | None:
        """When `yield_if_idle` must be called at the latest; None: a call will come before."""
        hold = self._hold
        if hold is None or hold.is_busy or not len(self._line):
            return None
        holder = self._members[hold.session_id]
        if holder.state is LeaseState.CLOSING:
            return None
        idle_s = holder.heard_s + holder.idle_timeout_s
        return idle_s if self._max_chunks is None else min(idle_s, hold.free_since_s + LINGER_S)

    def state_of(self, session_id: str) -> LeaseState | None:
        """Return where the session stands; None for one that isn't registered."""
        member = self._members.get(session_id)
        return member.state if member else None

    def position(self, session_id: str) -> int | None:
        """Return the place in line, 1 for the next one; None for who isn't queued."""
        return self._line.position(session_id)

    # --- a session's life -----------------------------------------------------------------------

    def register(self, session_id: str, idle_timeout_s: float) -> None:
        """Let a session take part; raises `ValueError` for one that does already."""
        if self._closed:
            raise ValueError("the lease is closed")
        if session_id in self._members:
            raise ValueError(f"{session_id} is registered already")
        if not idle_timeout_s > 0:
            raise ValueError("an idle timeout is longer than 0 s")
        self._members[session_id] = _Member(idle_timeout_s=idle_timeout_s, heard_s=self._now_s())

    def record_activity(self, session_id: str) -> tuple[Change, ...]:
        """A control came. Late ones, of sessions that close or are gone, change nothing."""
        member = self._members.get(session_id)
        if member is None or member.state is LeaseState.CLOSING:
            return ()
        member.heard_s = self._now_s()
        member.has_news = True
        return self._settled(session_id)

    def deactivate(self, session_id: str) -> tuple[Change, ...]:
        """The session closes: out of the line; what it holds it keeps until `release`."""
        member = self._members.get(session_id)
        if member is None or member.state is LeaseState.CLOSING:
            return ()
        member.wants = False
        self._line.leave(session_id)
        self._move(session_id, LeaseState.CLOSING)
        return self._settled()

    def release(self, session_id: str) -> tuple[Change, ...]:
        """The clean-up of a closing session is confirmed, and the session forgotten."""
        member = self._members.get(session_id)
        if member is None:
            return ()
        if member.state is not LeaseState.CLOSING:
            raise ValueError(f"{session_id} is released before it closes")
        del self._members[session_id]
        if self.holder == session_id:
            self._hold = None
        return self._settled()

    def close(self) -> tuple[Change, ...]:
        """End it for all: everybody is closing and nobody is granted anything any more."""
        self._closed = True
        for session_id, member in self._members.items():
            if member.state is not LeaseState.CLOSING:
                self._line.leave(session_id)
                self._move(session_id, LeaseState.CLOSING)
        return self._settled()

    # --- chunks ---------------------------------------------------------------------------------

    def ask(self, session_id: str) -> tuple[Change, ...]:
        """The session has room for its next chunk, which begins as soon as it is its turn.

        That is when it becomes active; or at once if it holds the lease, which `is_busy` tells.
        """
        member = self._members[session_id]
        if member.state is LeaseState.CLOSING:
            return ()
        member.wants = True
        changes = self._settled(session_id)
        if self._hold and self._hold.session_id == session_id and not self._hold.is_busy:
            self._hold.is_busy, self._hold.busy_since_s = True, self._now_s()
        return changes

    def is_busy(self, session_id: str) -> bool:
        """Whether the session's chunk is being made."""
        return self.holder == session_id and self._hold is not None and self._hold.is_busy

    def finish_chunk(self, session_id: str, *, counts: bool = True) -> tuple[Change, ...]:
        """The chunk is made; one that doesn't count (a status) uses nothing of a maximum hold."""
        if not self.is_busy(session_id) or self._hold is None:
            raise ValueError(f"{session_id} finished a chunk that it didn't begin")
        self._hold.chunks += counts
        return self._end_chunk(self._hold)

    def abort_chunk(self, session_id: str) -> tuple[Change, ...]:
        """The session doesn't make the chunk that it asked for: not begun, or failed."""
        member = self._members.get(session_id)
        if member is None:
            return ()
        if self._hold and self.is_busy(session_id):
            return self._end_chunk(self._hold)
        member.wants = False
        if member.state is LeaseState.QUEUED:
            self._line.leave(session_id)
            self._move(session_id, LeaseState.PARKED)
        return self._settled()

    def rest(self, session_id: str) -> tuple[Change, ...]:
        """The session will ask for nothing more: its lease is free for others, at once."""
        if self.holder == session_id and self.state_of(session_id) is LeaseState.ACTIVE:
            self._take_back()
        return self._settled()

    def yield_if_idle(self) -> tuple[Change, ...]:
        """Time has passed (see `deadline_s`)."""
        return self._settled()

    # --- the rules ------------------------------------------------------------------------------

    def _end_chunk(self, hold: _Hold) -> tuple[Change, ...]:
        hold.is_busy = False
        hold.free_since_s = self._now_s()
        self._members[hold.session_id].wants = False
        return self._settled()

    def _settled(self, session_id: str | None = None) -> tuple[Change, ...]:
        """Apply the rules and return what has changed since the last call."""
        if session_id is not None:
            self._line_up(session_id)
        self._settle()
        changes, self._changes = tuple(self._changes), []
        return changes

    def _settle(self) -> None:
        if self._hold is not None and len(self._line) and self._is_over(self._hold):
            self._take_back()
        head = self._line.head
        if self._hold is None and head is not None:
            self._line.leave(head)
            self._move(head, LeaseState.ACTIVE)
            self._members[head].has_news = False
            self._hold = _Hold(session_id=head, busy_since_s=self._now_s())

    def _line_up(self, session_id: str) -> None:
        member = self._members[session_id]
        may = member.has_news or self._max_chunks is not None
        if member.wants and may and member.state in (LeaseState.WAITING, LeaseState.PARKED):
            self._move(session_id, LeaseState.QUEUED)
            self._line.join(session_id)

    def _is_over(self, hold: _Hold) -> bool:
        """Whether the holder must let somebody else have a turn."""
        holder = self._members[hold.session_id]
        if hold.is_busy or holder.state is LeaseState.CLOSING:
            return False
        now_s = self._now_s()
        if now_s >= holder.heard_s + holder.idle_timeout_s:
            return True
        return self._max_chunks is not None and (
            hold.chunks >= self._max_chunks or now_s >= hold.free_since_s + LINGER_S
        )

    def _take_back(self) -> None:
        if self._hold is not None:
            session_id, self._hold = self._hold.session_id, None
            self._members[session_id].has_news = False
            self._move(session_id, LeaseState.PARKED)
            self._line_up(session_id)

    def _move(self, session_id: str, state: LeaseState) -> None:
        member = self._members[session_id]
        member.state = move(LEASE_MOVES, member.state, state)
        self._changes.append(Change(session_id=session_id, state=state))
