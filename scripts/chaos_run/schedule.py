"""What may happen in a chaos run: who comes, and what breaks?

Pure words and numbers. Times are seconds from the beginning of the seed. Clocks that step are those
of nodes; Redis's own clock is stepped by the model test.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

POOL = "default"
NODES = ("node-1", "node-2", "node-3", "node-4")
REPLICAS = ("replica-1", "replica-2", "replica-3")
REDIS = "redis"
VENUE = "venue"
NODE_TTL_S = 3.0
"""Short, so that a seed takes seconds; faults are chosen around it."""

ARRIVALS_S = 6.0
GUESTS = 28
NO_SHOWS = 0.3
EVER_S = 3600.0
PLAYS_S = ((0.5, 3.0), (0.5, 3.0), (3.0, 8.0))
"""Some outlast a node lease, or nobody would be there to be played twice."""


class Kind(StrEnum):
    """What breaks."""

    KILL = "kill"
    """kill -9; the process is away for a while, then it is started again."""
    TERM = "term"
    """SIGTERM; the process is started again some time after it has ended."""
    FREEZE = "freeze"
    """SIGSTOP, later SIGCONT."""
    LOSE_TAIL = "lose_tail"
    """Redis: kill -9, the last moments of its append-only file are gone when it comes back."""
    CUT = "cut"
    """Connections to Redis are reset and none can be made."""
    BLACK_HOLE = "black_hole"
    """What is sent to Redis vanishes."""
    DELAY = "delay"
    """Each call or reply takes 0.1 to 1.5 s longer, and arrives even if nobody waits any more."""
    DROP_REPLIES = "drop_replies"
    """Calls count, half of their replies don't come: the connection is reset instead."""
    DOUBLE = "double"
    """Each script is run a second time, up to 5 s later."""
    DEAF = "deaf"
    """Beats go through, everything else vanishes: a node that lives and accepts nothing."""
    EMPTY = "empty"
    """Redis forgets everything."""
    FORGET_SCRIPTS = "forget_scripts"
    """Redis forgets its scripts and resets all connections, those of subscribers, too."""
    SKEW = "skew"
    """A node's wall clock steps, and later steps back."""
    MEDIA_OUT = "media_out"
    """The media server is away: all workers lose their rooms, nobody joins."""


SKEWS_S = (3600.0, -3600.0, 4.5)
NETWORK = (Kind.CUT, Kind.BLACK_HOLE, Kind.DELAY, Kind.DROP_REPLIES, Kind.DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that breaks, and how long."""

    at_s: float
    kind: Kind
    target: str
    for_s: float
    lost_s: float = 0.0
    """How much of Redis's latest history is gone afterwards."""
    ahead_s: float = 0.0
    """How far a clock is ahead meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """One client: what it asks for and how it behaves."""

    name: str
    at_s: float
    plays_s: float
    """The service ends the session by itself after so long."""
    shows_up: bool
    """A controller is in the room; else nobody ever comes."""
    follows: bool = False
    """It listens to the event stream; else it asks how the session stands."""
    asks_twice: bool = False
    """The create call goes to two replicas at once, with one idempotency key."""
    deletes_after_s: float | None = None
    """Counted from the answer to the create call."""
    vanishes_after_s: float | None = None
    """The tab is closed: no calls and nobody in the room from then on."""
    reloads_after_s: float | None = None
    is_poison: bool = False
    """Its pipeline session kills the node's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One seed."""

    seed: int
    trap: str
    guests: tuple[Guest, ...]
    faults: tuple[Fault, ...]

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        return asdict(self)
