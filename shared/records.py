"""What is remembered of a session, a node, an assignment?

Frozen copies of what Redis holds, decoded once at the store's door. Times named ``_at_s`` are float
Unix seconds of the Redis server's clock, as the HTTP API gives them; durations carry their unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.node_profile import NodeProfile, NodeProgress
from shared.states import Admin, Judgement, NodeState, Reason, SessionState
from shared.waiting import NO_LIMITS, IdentityLimits, Suspect


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """How long each phase may last. Frozen into the record at open; nodes never supply them.

    Zero switches a limit off. ``queued_s`` is the waiting lease: silence of a waiting client.
    """

    queued_s: float = 0.0
    assigned_s: float = 7.0
    joining_s: float = 15.0
    controller_s: float = 60.0
    room_empty_s: float = 30.0
    starting_s: float = 120.0
    session_s: float = 1800.0
    draining_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What the client asked for; kept as JSON in ``sp:<sid>`` and read by the node itself."""

    identity: str
    config: dict[str, object] = field(default_factory=dict)
    prompt: str | None = None
    image_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One session as the registry knows it now."""

    session_id: str
    state: SessionState
    identity: str
    ticket: int
    """Place in the order of arrival; never issued again."""
    epoch: int
    """Raised at each assignment and each return; 0 before the first assignment."""
    version: int
    """Raised with each change of the record; a hint about an older one is old news."""
    attempt: int
    """1 + involuntary returns to the line."""
    created_at_s: float
    updated_at_s: float
    node_id: str | None = None
    position: int | None = None
    """1 is the head; only while queued."""
    expires_at_s: float | None = None
    """Wall time of the session limit; None while queued or without a limit."""
    pipeline_session_id: str | None = None
    participants: int = 0
    reason: Reason | None = None
    """Why it ended or is ending; the first one given stays."""
    error: str | None = None
    returned_because: str | None = None
    """The cause of the last return to the line, if there was one."""

    @property
    def ended(self) -> bool:
        return self.state in (SessionState.CLOSED, SessionState.EXPIRED, SessionState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One session placed on a node under an epoch: what both sides quote from then on."""

    session_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Stop an assignment: why a draining session ends, or ``fenced``: only clean its leftovers."""

    session_id: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a node sees in one session's room."""

    connected: bool
    """The worker itself is in the room."""
    controller: bool
    participants: int
    """Humans: the controller and the viewers, never workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """One session that a node holds, as its beat tells it."""

    session_id: str
    epoch: int
    presence: Presence | None = None
    """None: unchanged since the last confirmed beat."""
    state: SessionState | None = None
    """The furthest step that the registry confirmed; if lost there, it asks for the bundle (R6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedHere:
    """One session that ended on a node lately, repeated in case the first word of it was lost."""

    session_id: str
    epoch: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat: a snapshot taken together with its stamp."""

    node_id: str
    incarnation: int
    stamp: int
    """Counter within this life; a beat with a lower stamp than the last one is ``stale``."""
    state: NodeState
    capacity: int
    """Slots that the node offers now; 0 while its model can't serve."""
    draining: bool
    """The node is shutting down: it takes no new session."""
    media_ok: bool
    """The node reaches LiveKit. While False, presence is unknown and its timers stop."""
    residents: tuple[Resident, ...]
    ended: tuple[EndedHere, ...] = ()
    gpus: str = ""
    """`shared.gpus.gpus_text`; empty: as it was told last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatConfirmed:
    """The registry took the beat: the lease is renewed."""

    owned: frozenset[Assignment]
    """Members of this node: what may be played."""
    todo: tuple[Assignment, ...] = ()
    """Assigned here and not yet accepted."""
    kills: tuple[Kill, ...] = ()
    adopt: tuple[Assignment, ...] = ()
    """Residents that the registry lost or knows only from an earlier time: to be brought back with
    their bundles (R6, R14). They aren't owned until then."""
    moves_in_s: float | None = None
    """An operator has this node's sessions moved: in so many seconds, 0 is now. None: they stay."""


@dataclass(frozen=True, slots=True)
class BeatStale:
    """A later beat of this life arrived first; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MustRegister:
    """The registry doesn't know this life (any more): ``keep`` the residents for the registration
    (the record was lost), or drop them (declared dead, they went back to the line).
    """

    keep: bool


BeatReply = BeatConfirmed | BeatStale | MustRegister


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A node life begins."""

    incarnation: int
    kept: frozenset[Assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterLater:
    """The lease of an earlier process with this node id still runs."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer life of this node id exists: this process must exit."""


RegisterReply = Registered | RegisterLater | Superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A slot was free and nobody waited."""

    session: SessionRecord
    replay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """In line; ``session.position`` says where."""

    session: SessionRecord
    replay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A replay of a create call whose session is over by now."""

    session: SessionRecord
    replay: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not taken in: ``no_idle_worker`` (there's no line), ``queue_full`` or ``identity_limit``."""

    detail: str


Opened = Admitted | Queued | Ended | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An ``advance`` was applied, now or by an earlier copy of the same call."""

    state: SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class MustStop:
    """The session is draining: the node must clean up and confirm with ``end`` (R8)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """The session belongs to another assignment by now; only local cleanup is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who speaks for a session: checked by equality against the record before anything changes."""

    node_id: str
    incarnation: int
    session_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a node says when a life begins."""

    pool: str
    node_id: str
    boot_id: str
    """Fresh for each life."""
    ttl_s: float
    """Silence after which the registry declares the node dead."""
    capacity: int
    state: NodeState
    profile: NodeProfile
    previous_incarnation: int = 0
    """Of this same process's last life; 0 for a fresh process."""
    residents: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """One accepted POST on its way to the registry."""

    pool: str
    session_id: str
    request: SessionRequest
    limits: SessionLimits
    queue_size: int
    """Longest line of new waiters; 0: only whoever can be served at once is taken."""
    idempotency_hash: str = ""
    fingerprint: str = ""
    """Digest of the body: the same key with another body is a conflict."""
    identity_limits: IdentityLimits = NO_LIMITS
    caller: str = ""
    """Whose identity it is: two callers may both have an alice. Empty where all are one."""


AdvanceReply = Moved | MustStop | Fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node as the registry knows it now."""

    node_id: str
    state: NodeState
    judged: Judgement
    admin: Admin
    """Set by an operator; a new life of the node keeps it."""
    draining: bool
    """Reported by the node itself: it is shutting down."""
    incarnation: int
    capacity: int
    used: int
    """Slots taken, quarantined ones included."""
    quarantined: int
    media_ok: bool
    beat_age_s: float
    profile: NodeProfile
    progress: NodeProgress | None = None
    """None once the service serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One pool at one instant, all counts from one script."""

    pool: str
    nodes: tuple[NodeRecord, ...]
    states: dict[SessionState, int]
    """Live sessions by state."""
    waiting: tuple[str, ...]
    """The first session ids in line, in order."""
    queued: int
    oldest_wait_s: float
    totals: dict[str, int]
    """Totals since the registry began: opened, assigned, returned_<why>, ended_<reason>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A session that a sweep or a cancel made terminal; its room is to be deleted."""

    session_id: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A session that a sweep put back in line: older workers are to be removed from its room."""

    session_id: str
    epoch: int
    """Its new epoch: workers of a lower one are zombies."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep did; ``more`` asks for another call at once."""

    more: bool
    dead_nodes: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()
    endings: tuple[Ending, ...] = ()
    suspects: tuple[Suspect, ...] = ()
