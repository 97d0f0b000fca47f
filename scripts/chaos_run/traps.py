"""Which faults make a seed, alone and in the combinations that broke earlier designs?

Pure. Each seed plays one of the `TRAPS`, in turn; some random faults come on top.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from scripts.chaos_run.schedule import (
    ARRIVALS_S,
    EVER_S,
    NETWORK,
    NODE_TTL_S,
    NODES,
    REDIS,
    REPLICAS,
    SKEWS_S,
    VENUE,
    Fault,
    Kind,
)


def _at(chance: random.Random, *, until_s: float = ARRIVALS_S) -> float:
    return round(chance.uniform(0.5, until_s), 2)


def _lasting(chance: random.Random, least_s: float, most_s: float) -> float:
    return round(chance.uniform(least_s, most_s), 2)


def any_fault(chance: random.Random) -> Fault:
    """Return one fault of any kind, at any time while guests come."""
    make = chance.choices(
        (_kill_node, _freeze_node, _term_node, _skew, _hurt_replica, _hurt_redis, _hurt_network),
        weights=(3, 2, 2, 2, 2, 2, 5),
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


def _skew(chance: random.Random) -> Fault:
    return _skewed(chance, chance.choice(NODES), at_s=_at(chance), for_s=_lasting(chance, 0.5, 8.0))


def _skewed(chance: random.Random, target: str, *, at_s: float, for_s: float) -> Fault:
    ahead_s = chance.choice(SKEWS_S)
    return Fault(at_s=at_s, kind=Kind.SKEW, target=target, for_s=for_s, ahead_s=ahead_s)


def _hurt_replica(chance: random.Random) -> Fault:
    kind = chance.choice((Kind.KILL, Kind.FREEZE, Kind.TERM))
    for_s = _lasting(chance, 0.2, 4.0)
    return Fault(at_s=_at(chance), kind=kind, target=chance.choice(REPLICAS), for_s=for_s)


def _hurt_redis(chance: random.Random) -> Fault:
    kind = chance.choice((Kind.KILL, Kind.LOSE_TAIL, Kind.FREEZE, Kind.FORGET_SCRIPTS))
    return _redis(chance, kind, _at(chance))


def _redis(chance: random.Random, kind: Kind, at_s: float) -> Fault:
    lost_s = _lasting(chance, 0.05, 2.0) if kind is Kind.LOSE_TAIL else 0.0
    for_s = 0.0 if kind is Kind.FORGET_SCRIPTS else _lasting(chance, 0.0, 2.5)
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


def _media_is_out_for_long(chance: random.Random) -> list[Fault]:
    """A minute and a half, at the pace of these leases: beyond every limit but a session's own."""
    for_s = _lasting(chance, 8.0, 9.0) * NODE_TTL_S
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


def _all_is_lost(chance: random.Random) -> list[Fault]:
    return [Fault(at_s=_at(chance), kind=Kind.EMPTY, target=REDIS, for_s=0.0, lost_s=EVER_S)]


def _everywhere(kind: Kind) -> Callable[[random.Random], list[Fault]]:
    """All ways to Redis are hurt alike, for most of the seed."""

    def faults(chance: random.Random) -> list[Fault]:
        for_s = _lasting(chance, 4.0, 9.0)
        return [
            Fault(at_s=0.5, kind=kind, target=target, for_s=for_s) for target in (*NODES, *REPLICAS)
        ]

    return faults


def _clocks_step(chance: random.Random) -> list[Fault]:
    """One node's clock is wrong all along, others' step again and again; one dies, one freezes."""
    wrong, *stepping = chance.sample(NODES, 3)
    steps = [
        _skewed(chance, node, at_s=0.5 + 2.0 * number, for_s=_lasting(chance, 0.5, 1.5))
        for node in stepping
        for number in range(4)
    ]
    return [
        _skewed(chance, wrong, at_s=0.0, for_s=ARRIVALS_S + 2 * NODE_TTL_S),
        *steps,
        _kill_node(chance),
        _freeze_node(chance),
    ]


def _storm(chance: random.Random) -> list[Fault]:
    return [any_fault(chance) for _ in range(10)]


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
    "all_is_lost": _all_is_lost,
    "storm": _storm,
    "everything_twice": _everywhere(Kind.DOUBLE),
    "everything_late": _everywhere(Kind.DELAY),
    "replies_lost_everywhere": _everywhere(Kind.DROP_REPLIES),
    "clocks_step": _clocks_step,
    "media_is_out_for_long": _media_is_out_for_long,
}
