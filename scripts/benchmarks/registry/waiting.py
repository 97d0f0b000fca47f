"""Does a long line make anybody's call slower?

The same calls at several lengths of the line, beside what the server needs for a plain ``SET`` and
for an empty script at that moment. Slots are taken throughout, so a newcomer waits and a slot that
becomes free goes to the head of the line.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scripts.benchmarks.registry.crowd import Crowd
from scripts.benchmarks.registry.server_cost import Client, Command, Cost, cost_of

LENGTHS = (0, 1_000, 10_000, 100_000)
_CALLS = 450
_NODES, _SLOTS = 10, 16
_TOUCHED_TOGETHER = 100
_EMPTY_SCRIPT = "#!lua\nreturn 1"


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Costs by call and length of the line, and what a waiter takes in memory."""

    costs: dict[str, dict[int, Cost]] = field(default_factory=dict)
    at_once: Cost | None = None
    """An opening that is given a slot in the same call."""

    def worst_ratio(self, call: str, length: int) -> float:
        """Return how many times the empty line's cost a call has."""
        return self.costs[call][length].us / self.costs[call][0].us


def measure(client: Client, lengths: Sequence[int], note: Callable[[str], None]) -> Waiting:
    """Fill a line step by step and measure at each length."""
    client.flushall()
    found = Waiting()
    crowd = Crowd(client, "waiting")
    found.at_once = _open_at_once(client)
    crowd.add_nodes(_NODES, capacity=_SLOTS)
    crowd.open(_NODES * _SLOTS)
    crowd.play(crowd.nodes)
    chance = random.Random(1)  # noqa: S311 - the same sessions in each run
    for length in lengths:
        note(f"{length} waiting")
        crowd.wait_in_line(length)
        for call, cost in _all_calls(crowd, chance, length):
            found.costs.setdefault(call, {})[length] = cost
    return found


def _open_at_once(client: Client) -> Cost:
    crowd = Crowd(client, "room-for-all")
    crowd.add_nodes(_CALLS // 10, capacity=_SLOTS)
    return cost_of(client, [crowd.opening() for _ in range(_CALLS)])


def _all_calls(crowd: Crowd, chance: random.Random, length: int) -> list[tuple[str, Cost]]:
    """Measure each kind of call once; the line is as long afterwards as it was."""
    client = crowd.client
    empty = client.script_load(_EMPTY_SCRIPT)
    costs = [
        ("SET", cost_of(client, [("SET", "plain", "x" * 100)] * _CALLS)),
        ("empty script", cost_of(client, [("EVALSHA", empty, 1, crowd.prefix)] * _CALLS)),
        ("open", cost_of(client, [crowd.opening() for _ in range(_CALLS)])),
    ]
    some = chance.sample(crowd.line(), _CALLS)
    costs += [
        ("position (touch)", cost_of(client, [_touch(crowd, [sid]) for sid in some])),
        ("position (read)", cost_of(client, [_read(crowd, sid) for sid in some])),
    ]
    together = [_touch(crowd, some[:_TOUCHED_TOGETHER])] * 9
    costs.append((f"touch of {_TOUCHED_TOGETHER}", cost_of(client, together, batch=1)))
    costs.append(("cancel", cost_of(client, [_cancel(crowd, sid) for sid in some])))
    costs.append(("beat, 16 residents", cost_of(client, _beats(crowd), batch=len(crowd.nodes))))
    costs.append(("read the line", cost_of(client, [crowd.look_at_line()] * 9, batch=1)))
    costs.append(("snapshot", cost_of(client, [crowd.snapshot()] * 9, batch=1)))
    if length >= _NODES * _SLOTS:
        costs.append(("end, next steps up", _change_over(crowd)))
    return costs


def _touch(crowd: Crowd, names: Sequence[str]) -> Command:
    return crowd.command("touch_sessions", session_ids=" ".join(names), replica="replica-1")


def _read(crowd: Crowd, name: str) -> Command:
    return crowd.command("read_session", session_id=name)


def _cancel(crowd: Crowd, name: str) -> Command:
    return crowd.command("cancel_session", session_id=name, reason="client_stop")


def _beats(crowd: Crowd) -> list[Command]:
    return [crowd.beat(node, humans=1 + turn % 2) for turn in range(9) for node in crowd.nodes]


def _change_over(crowd: Crowd) -> Cost:
    """End every resident: each slot goes to the head of the line, who then plays there."""
    cost = cost_of(
        crowd.client,
        [crowd.ending(node, resident) for node in crowd.nodes for resident in node.residents],
        batch=_SLOTS,
    )
    crowd.play(crowd.nodes)
    return cost
