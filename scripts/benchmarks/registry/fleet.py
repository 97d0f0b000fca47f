"""How much of one core does a large fleet take, and for how long does one call stop everything?

A thousand nodes with ten residents each beat every two seconds while three replicas sweep and ten
thousand wait. The calls are sent at their real rate, each in a packet of its own, and the server's
processor time is taken by its own word. Then the largest node dies: one sweep call returns as many
sessions as its budget allows, and serves nobody else meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from redis import Redis

from scripts.benchmarks.registry.crowd import Crowd, Node
from scripts.benchmarks.registry.server_cost import (
    Client,
    Command,
    Cost,
    cost_of,
    cpu_s,
    longest_ms,
)
from shared.store.nodes import SWEEP_BUDGET

NODES, RESIDENTS_EACH, WAITING = 1_000, 10, 10_000
_BEAT_EVERY_S, _SWEEPS_PER_S, _REPLICAS = 2.0, 4, 3
_CONNECTIONS = 50
_PINGS_FOR_S = 3.0
_LOOKS = 7
LARGEST_NODE = 256
_OTHERS = 16
"""Half full: they take what the dead node leaves."""
_SHORT_TTL_MS = 2_000
_ROUNDS = 3


Due: TypeAlias = tuple[float, Command]
"""When, in seconds from the beginning, and what is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What a fleet costs."""

    share: float
    """Of one core: processor seconds per second, everything that the server did."""
    idle_share: float
    """The same server with nobody calling."""
    ping_share: float
    """The same server with as many calls that do nothing."""
    calls_per_s: float
    quiet_beat: Cost
    beat_with_news: Cost
    sweep: Cost
    """Both sweeps, where nothing is due."""
    look_at_line: Cost
    snapshot: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """The longest that one call kept everybody waiting, in milliseconds."""

    sweep_ms: float
    goodbye_ms: float
    """A node with as many residents retires by itself; nobody has room for them."""


def measure(client: Client, seconds: float, note: Callable[[str], None]) -> Fleet:
    """Build the fleet, leave it alone for a moment, then let it live for so many *seconds*."""
    client.flushall()
    note(f"{NODES} nodes, {NODES * RESIDENTS_EACH} residents, {WAITING} waiting")
    crowd = Crowd(client, "fleet")
    crowd.add_nodes(NODES, capacity=RESIDENTS_EACH)
    crowd.open(NODES * RESIDENTS_EACH)
    crowd.play(crowd.nodes)
    crowd.open(WAITING)
    before_s = cpu_s(client)
    time.sleep(2)
    idle_share = (cpu_s(client) - before_s) / 2
    note(f"living for {seconds:.0f} s")
    share, calls = _live(crowd, _timetable(crowd, seconds))
    rate = calls / seconds
    pings: list[Due] = [(number / rate, ("PING",)) for number in range(int(_PINGS_FOR_S * rate))]
    ping_share, _ = _live(crowd, pings)
    news, quiet = ([crowd.beat(node, humans=9) for node in crowd.nodes] for _ in range(2))
    sweeps = [command for _ in range(NODES // 4) for command in _sweeps(crowd)]
    return Fleet(
        share=share,
        idle_share=idle_share,
        ping_share=ping_share,
        calls_per_s=rate,
        beat_with_news=cost_of(client, news),
        quiet_beat=cost_of(client, quiet),
        sweep=cost_of(client, sweeps),
        look_at_line=cost_of(client, [crowd.look_at_line()] * _LOOKS, batch=1),
        snapshot=cost_of(client, [crowd.snapshot()] * _LOOKS, batch=1),
    )


def _live(crowd: Crowd, timetable: Iterable[Due]) -> tuple[float, int]:
    """Send every call when it is due; return the server's share of a core and the calls."""
    pool = crowd.client.connection_pool
    clients = itertools.cycle(
        [Redis(connection_pool=pool, single_connection_client=True) for _ in range(_CONNECTIONS)]
    )
    calls, before_s, started_s = 0, cpu_s(crowd.client), time.monotonic()
    for due_s, command in timetable:
        time.sleep(max(0.0, started_s + due_s - time.monotonic()))
        next(clients).execute_command(*command)  # type: ignore[no-untyped-call]
        calls += 1
    elapsed_s = time.monotonic() - started_s
    share = (cpu_s(crowd.client) - before_s) / elapsed_s
    for one in itertools.islice(clients, _CONNECTIONS):
        one.close()
    return share, calls


def _timetable(crowd: Crowd, seconds: float) -> Iterator[Due]:
    """Yield all calls of nodes and replicas in the order in which they are due.

    Every third beat of a node has news: somebody came into a room.
    """
    sweeps_per_s = _SWEEPS_PER_S * _REPLICAS
    every_s = _BEAT_EVERY_S / len(crowd.nodes)
    beats = (
        (number * every_s, crowd.beat(node, humans=1 + turn // 3 % 2))
        for turn in range(int(seconds / _BEAT_EVERY_S))
        for number, node in enumerate(crowd.nodes, turn * len(crowd.nodes))
    )
    sweeps = (
        (number / sweeps_per_s, command)
        for number in range(int(seconds * sweeps_per_s))
        for command in _sweeps(crowd)
    )
    return heapq.merge(beats, sweeps, key=lambda due: due[0])


def _sweeps(crowd: Crowd) -> list[Command]:
    return [
        crowd.command("sweep_nodes", budget=SWEEP_BUDGET),
        crowd.command("sweep_deadlines", budget=SWEEP_BUDGET),
    ]


def evacuate(client: Client, note: Callable[[str], None]) -> Evacuation:
    """Let a full node die while others have room, and another one say goodbye; some times over."""
    note(f"a node with {LARGEST_NODE} residents dies, another one retires")
    rounds = [_evacuate(client) for _ in range(_ROUNDS)]
    return Evacuation(
        sweep_ms=min(one.sweep_ms for one in rounds),
        goodbye_ms=min(one.goodbye_ms for one in rounds),
    )


def _evacuate(client: Client) -> Evacuation:
    client.flushall()
    crowd = Crowd(client, "largest")
    (dies,) = crowd.add_nodes(1, capacity=LARGEST_NODE, named="dies", ttl_ms=_SHORT_TTL_MS)
    crowd.open(LARGEST_NODE)
    crowd.play([dies])
    others = crowd.add_nodes(_OTHERS, capacity=2 * LARGEST_NODE // _OTHERS)
    crowd.open(LARGEST_NODE)
    crowd.play(others)
    _fall_silent(crowd, others)
    calls = 2 * LARGEST_NODE // SWEEP_BUDGET  # all are returned before the first is assigned
    sweep_ms = longest_ms(client, [crowd.command("sweep_nodes", budget=SWEEP_BUDGET)] * calls)
    crowd.play(others)
    moved = sum(len(node.residents) for node in others) - LARGEST_NODE
    if moved != LARGEST_NODE:
        raise RuntimeError(f"{moved} of {LARGEST_NODE} sessions went from {dies.node_id} elsewhere")
    (leaves,) = crowd.add_nodes(1, capacity=LARGEST_NODE, named="leaves")
    crowd.open(LARGEST_NODE)
    crowd.play([leaves])
    goodbye = crowd.command("retire_node", node_id=leaves.node_id, incarnation=leaves.incarnation)
    return Evacuation(sweep_ms=sweep_ms, goodbye_ms=longest_ms(client, [goodbye]))


def _fall_silent(crowd: Crowd, live: Sequence[Node]) -> None:
    """Let time pass in which all but one node beat."""
    for _ in range(_SHORT_TTL_MS // 1000 + 1):
        time.sleep(1)
        crowd.send(crowd.beat(node) for node in live)
