"""What exactly stands in the registry under a name? Pure.

Facts as they are stored, of one instant, for whoever asks why and for the audit: nothing is
concluded here. Hash fields keep the names that any Redis client shows. A time to live is in
milliseconds; `STAYS` means without one, `ABSENT` that there is no such key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.states import ENDED_STATES, SessionState

STAYS = -1
ABSENT = -2
_STATES = frozenset(SessionState)


def known_state(word: str) -> SessionState | None:
    """Return the state of this name; None for none, and for a word that nobody of ours wrote."""
    return SessionState(word) if word in _STATES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long a session's keys will live (ms)."""

    record: int
    texts: int
    request: int
    image: int
    idempotency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """All that stands under one session id."""

    session_id: str
    record: Mapping[str, str]
    """``s:<sid>``; empty if there's none."""
    texts: Mapping[str, str]
    """``sd:<sid>``."""
    position: int | None
    """1 is the head of the line."""
    line_ticket: int | None
    """The score in ``q``."""
    deadline_ms: int | None
    """The score in ``dl``, in registry time."""
    slot_epoch: int | None
    """Under which it holds a slot of the node that its record names."""
    quarantine_epoch: int | None
    """Under which its leftovers hold one."""
    image_bytes: int
    lifetimes: Lifetimes

    @property
    def state(self) -> SessionState | None:
        return known_state(self.record.get("state", ""))

    @property
    def is_live(self) -> bool:
        return self.state is not None and self.state not in ENDED_STATES

    @property
    def node_id(self) -> str:
        return self.record.get("node", "")

    def number(self, field: str) -> int | None:
        """Return a whole number of the record, None if it isn't there."""
        text = self.record.get(field)
        return int(float(text)) if text else None

    def deadlines(self) -> dict[str, int]:
        """Return the running deadlines by kind, in registry time (ms)."""
        return {
            name.removeprefix("t_"): int(float(value))
            for name, value in self.record.items()
            if name.startswith("t_")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One slot of a node that is taken, and what the session's own record says."""

    session_id: str
    epoch: int
    quarantined: bool
    state: SessionState | None
    node_id: str
    session_epoch: int | None
    acked: int | None
    """The stamp under which the node accepted it; None: not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """All that stands under one node id."""

    node_id: str
    record: Mapping[str, str]
    lease_ms: int | None
    """Its liveness deadline in registry time; None: it has no lease."""
    free_score: float | None
    lifetime_ms: int
    members: tuple[Member, ...]

    @property
    def capacity(self) -> int:
        """Slots that the line may use: what the node reports, unless an operator allows fewer."""
        allowed = self.record.get("admin_capacity")
        reported = self.number("capacity")
        return reported if allowed is None else min(reported, int(allowed))

    def number(self, field: str) -> int:
        """Return a whole number of the record, 0 if it isn't there."""
        return int(float(self.record.get(field) or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """What was looked at in one pool."""

    pool: str
    at_ms: int
    """The server's wall clock."""
    registry_ms: int
    counters: Mapping[str, str]
    sessions: tuple[SessionFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """One key as it was found."""

    name: str
    """Without the pool's prefix."""
    kind: str
    """Its row in the key table, such as ``s:<sid>``; empty: nobody owns it."""
    subject: str
    """The session, node or hash in its name; empty for a key that the pool has once."""
    type_fits: bool
    lasting: bool
    """It may stand without a time to live while nothing is live."""
    lifetime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """One room of our deployment, as the media server lists it."""

    session_id: str
    epoch: int | None
    """Of the assignment that made sure of it last; None before the first."""
    participants: int
    """Everybody, workers too."""
    publishers: int
    """Who has tracks there: the worker, and people with a microphone."""
    made_at_s: int
    """Unix seconds of the media server's clock."""
