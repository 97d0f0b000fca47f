"""Does memory come back after many sessions have come and gone?

Each session waits, is assigned, played and ended. Ended ones stay readable for an hour, which a
bench can't wait for, so their lifetime is cut to a millisecond; everything else that could be left
behind has its chance: line, slots, deadlines, counters, the trail, which is full at the first look.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from scripts.benchmarks.registry.crowd import Crowd
from scripts.benchmarks.registry.server_cost import Client, memory_bytes

_NODES, _SLOTS = 10, 100
_TOGETHER = _NODES * _SLOTS
_WARM_UP = 4 * _TOGETHER
"""More changes than the audit trail keeps."""
_SETTLES_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What was held before, at the fullest and afterwards."""

    lifecycles: int
    before_bytes: int
    retained_bytes: int
    """Of one ended session that can still be read."""
    after_bytes: int
    before_keys: int
    after_keys: int
    per_s: float
    """Whole lifecycles, six calls each."""

    @property
    def growth(self) -> float:
        """Return what is left over, as a share of what was held before."""
        return self.after_bytes / self.before_bytes - 1


def measure(client: Client, lifecycles: int, note: Callable[[str], None]) -> Memory:
    """Play so many sessions, a thousand at a time, and look at memory before and after."""
    client.flushall()
    crowd = Crowd(client, "lifecycles")
    crowd.add_nodes(_NODES, capacity=_SLOTS)
    note(f"{lifecycles} lifecycles")
    for _ in range(_WARM_UP // _TOGETHER):
        _live_and_end(crowd)
        _forget(crowd)
    before_bytes, before_keys = _settled(client)
    retained_bytes, spent_s = 0, 0.0
    for _ in range(lifecycles // _TOGETHER):
        started_s = time.perf_counter()
        _live_and_end(crowd)
        spent_s += time.perf_counter() - started_s
        retained_bytes = (memory_bytes(client) - before_bytes) // _TOGETHER
        _forget(crowd)
    after_bytes, after_keys = _settled(client)
    return Memory(
        lifecycles=lifecycles,
        before_bytes=before_bytes,
        retained_bytes=retained_bytes,
        after_bytes=after_bytes,
        before_keys=before_keys,
        after_keys=after_keys,
        per_s=lifecycles / spent_s,
    )


def _live_and_end(crowd: Crowd) -> None:
    """Let as many sessions as there are slots wait, play and end."""
    crowd.open(_TOGETHER)
    crowd.play(crowd.nodes)
    crowd.send(crowd.ending(node, resident) for node in crowd.nodes for resident in node.residents)
    for node in crowd.nodes:
        node.residents = []
    crowd.send(crowd.beat(node) for node in crowd.nodes)


def _forget(crowd: Crowd) -> None:
    """Let the hour pass in which ended sessions can be read: only for what would vanish then."""
    found = list(crowd.client.scan_iter(f"{crowd.prefix}*", count=1000))
    lives = crowd.send(("PTTL", name) for name in found)
    ending = [name for name, ms in zip(found, lives, strict=True) if ms >= 0]
    crowd.send(("PEXPIRE", name, 1) for name in ending)


def _settled(client: Client) -> tuple[int, int]:
    """Return memory and number of keys once the server has removed what expired."""
    deadline_s = time.monotonic() + _SETTLES_WITHIN_S
    last = (memory_bytes(client), client.dbsize())
    while time.monotonic() < deadline_s:
        time.sleep(0.5)
        now = (memory_bytes(client), client.dbsize())
        if now == last:
            break
        last = now
    return last
