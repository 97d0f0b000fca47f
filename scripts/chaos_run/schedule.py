"""What happens in one seed: who comes when, and what breaks?

Pure: the same seed gives the same plan on any machine, so a seed that failed can be played again.
Only the plan repeats, not the run: what a fault meets depends on the machine.

Each seed plays one of the `TRAPS`, combinations that broke earlier designs, in turn; some random
faults come on top. Times are seconds from the beginning of the seed. Clock skew isn't among the
faults: real processes share the machine's clock. The model test moves clocks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

NODES = ("node-1", "node-2", "node-3", "node-4")
REPLICAS = ("replica-1", "replica-2", "replica-3")
REDIS = "redis"
VENUE = "venue"
NODE_TTL_S = 3.0
"""Short, so that a seed takes seconds; faults are chosen around it."""

ARRIVALS_S = 6.0
GUESTS = 28
NO_SHOWS = 0.3
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
    """Each script is run a second time, up to 1.5 s later."""
    DEAF = "deaf"
    """Beats go through, everything else vanishes: a node that lives and accepts nothing."""
    MEDIA_OUT = "media_out"
    """The media server is away: all workers lose their rooms, nobody joins."""


NETWORK = (Kind.CUT, Kind.BLACK_HOLE, Kind.DELAY, Kind.DROP_REPLIES, Kind.DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that breaks, and how long."""

    at_s: float
    kind: Kind
    target: str
    for_s: float
    lost_s: float = 0.0
    """LOSE_TAIL: how much of the latest history is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """One client: what it asks for and how it behaves."""

    name: str
    at_s: float
    plays_s: float
    """The service ends the session by itself after so long."""
    shows_up: bool
    """A controller is in the room; else nobody ever comes."""
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


def plan(seed: int, *, guests: int = GUESTS) -> Plan:
    """Return what happens in *seed*."""
    chance = random.Random(f"greenroom chaos {seed}")  # noqa: S311 - it must repeat
    names = tuple(TRAPS)
    trap = names[seed % len(names)]
    faults = [*TRAPS[trap](chance), *(_any_fault(chance) for _ in range(chance.randint(1, 4)))]
    coming = [_guest(chance, seed, number) for number in range(guests)]
    if trap == "poison_session":
        coming.append(_poison(seed))
    return Plan(
        seed=seed,
        trap=trap,
        guests=tuple(sorted(coming, key=lambda guest: guest.at_s)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_s)),
    )


def _guest(chance: random.Random, seed: int, number: int) -> Guest:
    mood = chance.random()
    after_s = round(chance.uniform(0.2, 4.0), 2)
    return Guest(
        name=f"guest-{seed}-{number}",
        at_s=round(chance.uniform(0.0, ARRIVALS_S), 2),
        plays_s=round(chance.uniform(*chance.choice(PLAYS_S)), 2),
        shows_up=chance.random() >= NO_SHOWS,
        asks_twice=chance.random() < 0.15,
        deletes_after_s=after_s if mood < 0.15 else None,
        vanishes_after_s=after_s if 0.15 <= mood < 0.25 else None,
        reloads_after_s=after_s if 0.25 <= mood < 0.35 else None,
    )


def _poison(seed: int) -> Guest:
    return Guest(
        name=f"poison-{seed}", at_s=1.0, plays_s=1.0, shows_up=True, is_poison=True
    )  # fmt: skip


def _at(chance: random.Random, *, until_s: float = ARRIVALS_S) -> float:
    return round(chance.uniform(0.5, until_s), 2)


def _lasting(chance: random.Random, least_s: float, most_s: float) -> float:
    return round(chance.uniform(least_s, most_s), 2)


def _any_fault(chance: random.Random) -> Fault:
    make = chance.choices(
        (_kill_node, _freeze_node, _term_node, _hurt_replica, _hurt_redis, _hurt_network),
        weights=(3, 2, 2, 2, 2, 5),
    )[0]
    return make(chance)


def _kill_node(chance: random.Random) -> Fault:
    for_s = _lasting(chance, 0.0, 3.0)
    return Fault(at_s=_at(chance), kind=Kind.KILL, target=chance.choice(NODES), for_s=for_s)


def _freeze_node(chance: random.Random) -> Fault:
    for_s = _lasting(chance, 0.5, 2.5 * NODE_TTL_S)
    return Fault(at_s=_at(chance), kind=Kind.FREEZE, target=chance.choice(NODES), for_s=for_s)


def _term_node(chance: random.Random) -> Fault:
    for_s = _lasting(chance, 0.0, 1.0)
    return Fault(at_s=_at(chance), kind=Kind.TERM, target=chance.choice(NODES), for_s=for_s)


def _hurt_replica(chance: random.Random) -> Fault:
    kind = chance.choice((Kind.KILL, Kind.FREEZE, Kind.TERM))
    for_s = _lasting(chance, 0.2, 4.0)
    return Fault(at_s=_at(chance), kind=kind, target=chance.choice(REPLICAS), for_s=for_s)


def _hurt_redis(chance: random.Random) -> Fault:
    kind = chance.choice((Kind.KILL, Kind.LOSE_TAIL, Kind.FREEZE))
    return _redis(chance, kind, _at(chance))


def _redis(chance: random.Random, kind: Kind, at_s: float) -> Fault:
    lost_s = _lasting(chance, 0.05, 2.0) if kind is Kind.LOSE_TAIL else 0.0
    for_s = _lasting(chance, 0.0, 2.5)
    return Fault(at_s=at_s, kind=kind, target=REDIS, for_s=for_s, lost_s=lost_s)


def _hurt_network(chance: random.Random) -> Fault:
    target = chance.choice((*NODES, *REPLICAS))
    for_s = _lasting(chance, 0.5, 2 * NODE_TTL_S)
    return Fault(at_s=_at(chance), kind=chance.choice(NETWORK), target=target, for_s=for_s)


# --- combinations that broke earlier designs ----------------------------------------------------


def _node_dies(chance: random.Random) -> list[Fault]:
    return [_kill_node(chance)]


def _deaf_node(chance: random.Random) -> list[Fault]:
    target = chance.choice(NODES)
    return [Fault(at_s=0.3, kind=Kind.DEAF, target=target, for_s=_lasting(chance, 3.0, 6.0))]


def _crashes_and_is_back(chance: random.Random) -> list[Fault]:
    target, at_s = chance.choice(NODES), _at(chance, until_s=2.0)
    return [
        Fault(at_s=at_s + 2.0 * number, kind=Kind.KILL, target=target, for_s=0.0)
        for number in range(3)
    ]


def _cut_while_the_tail_is_lost(chance: random.Random) -> list[Fault]:
    at_s = _at(chance, until_s=2.0)
    cut = Fault(at_s=at_s, kind=Kind.CUT, target=chance.choice(NODES), for_s=2 * NODE_TTL_S)
    return [cut, _redis(chance, Kind.LOSE_TAIL, at_s + _lasting(chance, 0.5, 4.0))]


def _registry_forgets_while_nodes_are_away(chance: random.Random) -> list[Fault]:
    """Between their registration and their adoption, nodes must not be overfilled."""
    at_s = _at(chance, until_s=3.0)
    frozen = [
        Fault(at_s=at_s, kind=Kind.FREEZE, target=node, for_s=_lasting(chance, 1.0, 4.0))
        for node in chance.sample(NODES, 2)
    ]
    return [*frozen, _redis(chance, Kind.LOSE_TAIL, at_s + 0.3)]


def _beats_overtake(chance: random.Random) -> list[Fault]:
    """A node gives its sessions back while its calls are late, doubled and unanswered."""
    target, at_s = chance.choice(NODES), _at(chance, until_s=3.0)
    kind = chance.choice((Kind.DELAY, Kind.DOUBLE, Kind.DROP_REPLIES))
    return [
        Fault(at_s=at_s, kind=kind, target=target, for_s=4.0),
        Fault(at_s=at_s + 0.7, kind=Kind.TERM, target=target, for_s=0.0),
    ]


def _media_is_out(chance: random.Random) -> list[Fault]:
    for_s = _lasting(chance, 1.0, 8.0)
    return [Fault(at_s=_at(chance, until_s=3.0), kind=Kind.MEDIA_OUT, target=VENUE, for_s=for_s)]


def _most_nodes_die_at_once(chance: random.Random) -> list[Fault]:
    at_s = _at(chance)
    return [
        Fault(at_s=at_s, kind=Kind.KILL, target=node, for_s=_lasting(chance, 0.0, 2.0))
        for node in chance.sample(NODES, 3)
    ]


def _frozen_node_wakes(chance: random.Random) -> list[Fault]:
    """Two nodes wake long after their leases ran out, and one of them can't ask anybody."""
    frozen = [
        Fault(
            at_s=_at(chance, until_s=3.0),
            kind=Kind.FREEZE,
            target=target,
            for_s=_lasting(chance, NODE_TTL_S + 1.0, 2 * NODE_TTL_S),
        )
        for target in chance.sample(NODES, 2)
    ]
    alone = frozen[0]
    cut = Fault(
        at_s=alone.at_s + 1.0, kind=Kind.BLACK_HOLE, target=alone.target, for_s=alone.for_s + 1.0
    )
    return [*frozen, cut]


def _nodes_cut_off(chance: random.Random) -> list[Fault]:
    return [
        Fault(
            at_s=_at(chance, until_s=3.0),
            kind=chance.choice((Kind.CUT, Kind.BLACK_HOLE)),
            target=target,
            for_s=_lasting(chance, NODE_TTL_S, 2.5 * NODE_TTL_S),
        )
        for target in chance.sample(NODES, 2)
    ]


def _all_replicas_stall(chance: random.Random) -> list[Fault]:
    at_s = _at(chance, until_s=3.0)
    return [
        Fault(at_s=at_s, kind=Kind.FREEZE, target=replica, for_s=4.0) for replica in REPLICAS
    ] + [_kill_node(chance)]


def _redis_restarts_twice(chance: random.Random) -> list[Fault]:
    first = _redis(chance, Kind.KILL, _at(chance, until_s=2.0))
    return [first, _redis(chance, Kind.LOSE_TAIL, first.at_s + 4.0)]


TRAPS: dict[str, Callable[[random.Random], list[Fault]]] = {
    "node_dies": _node_dies,
    "cut_while_the_tail_is_lost": _cut_while_the_tail_is_lost,
    "frozen_node_wakes": _frozen_node_wakes,
    "nodes_cut_off": _nodes_cut_off,
    "deaf_node": _deaf_node,
    "most_nodes_die_at_once": _most_nodes_die_at_once,
    "beats_overtake": _beats_overtake,
    "media_is_out": _media_is_out,
    "crashes_and_is_back": _crashes_and_is_back,
    "registry_forgets_while_nodes_are_away": _registry_forgets_while_nodes_are_away,
    "all_replicas_stall": _all_replicas_stall,
    "redis_restarts_twice": _redis_restarts_twice,
    "poison_session": _node_dies,
}
