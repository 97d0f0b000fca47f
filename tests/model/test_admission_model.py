"""Do the real scripts and a small model of them agree, whatever happens in whatever order?

Hypothesis plays clients, nodes, operators, sweepers and the clock. Calls are sent twice, or again
much later, as after a lost reply. GREENROOM_MODEL_EXAMPLES asks for a longer search, which also
shortens what it finds; that takes minutes.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.model.both_sides import BothSides, Call
from tests.model.script_model import TTL_MS, Listed, Owner, Reply
from tests.support.redis_server import RawRedis
from tests.support.scenario import listed_ids, sid

_ASKED_FOR = os.environ.get("GREENROOM_MODEL_EXAMPLES")
EXAMPLES = int(_ASKED_FOR or "30")
PHASES = [Phase.explicit, Phase.generate, *([Phase.reuse, Phase.shrink] if _ASKED_FOR else [])]
STEPS = 60
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
LIMITS = {
    "queued": 20_000,
    "assigned": 7_000,
    "joining": 9_000,
    "starting": 12_000,
    "session": 40_000,
    "draining": 10_000,
}
WAY = ("joining_room", "starting_pipeline", "running")
UNUSED = {"d_controller": 0, "d_room_empty": 0}

NODES = ("n1", "n2", "n3")
nodes = st.sampled_from(NODES)
any_one = st.integers(min_value=0, max_value=30)
"""Which of many, counted from the newest; the newest for numbers beyond them."""
reasons = st.sampled_from(["client_stop", "completed", "service_error", "session_timeout"])


@dataclass(slots=True, kw_only=True)
class Process:
    """A node's process, and what it believes."""

    inc: int
    boot: str
    capacity: int
    stamp: int = 0
    residents: dict[tuple[str, int], int] = field(default_factory=dict)
    """What it holds (session, epoch), and how many steps each has taken."""
    todo: Listed = field(default_factory=list)


class Admission(RuleBasedStateMachine):
    """One pool, three nodes, and as many clients as come."""

    def __init__(self, raw: RawRedis) -> None:
        super().__init__()
        self.sides = BothSides(raw)
        self.processes: dict[str, Process] = {}
        self.letters = iter(LETTERS)
        self.boots = count()

    def act(self, script: str, *model: object, twice: bool = True, **real: Any) -> Reply:
        """Send one call, and once more in the same instant."""
        call = Call(script=script, model=model, real=real)
        self.sides.calls.append(call)
        reply = self.sides.send(call)
        if twice:
            self.sides.repeat(call)
        return reply

    @initialize(capacities=st.lists(st.integers(min_value=1, max_value=3), max_size=3))
    def begin(self, capacities: list[int]) -> None:
        """Some nodes serve a session each, and some clients wait."""
        for node, capacity in zip(NODES, capacities, strict=False):
            self.start_process(node, capacity)
            self.open(100, patient=True)
            self._serve(node, 3)
            self.open(100, patient=False)

    # Clients and operators.

    @rule(queue_size=st.sampled_from([0, 2, 100]), patient=st.booleans())
    def open(self, queue_size: int, patient: bool) -> None:
        if (letter := next(self.letters, None)) is None:
            return
        limits = LIMITS | ({"queued": 0} if patient else {})
        durations = {f"d_{kind}": limit for kind, limit in limits.items()} | UNUSED
        opening: dict[str, Any] = self.sides.world.opening(
            letter, queue_size=queue_size, **durations
        )
        self.act("open_session", sid(letter), queue_size, limits, **opening)

    @precondition(lambda self: self.sides.model.sessions)
    @rule(which=any_one, reason=reasons)
    def cancel(self, which: int, reason: str) -> None:
        name = pick(list(self.sides.model.sessions), which)
        self.act("cancel_session", name, reason, session_id=name, reason=reason)

    @precondition(lambda self: self.sides.model.sessions)
    @rule(which=any_one)
    def touch(self, which: int) -> None:
        name = pick(list(self.sides.model.sessions), which)
        self.act("touch_sessions", name, session_ids=name, replica="")

    # Nodes.

    @rule(node=nodes, capacity=st.integers(min_value=1, max_value=3))
    def start_process(self, node: str, capacity: int) -> None:
        """A fresh process begins; one that ran before is gone or frozen."""
        self._register(node, Process(inc=0, boot=f"boot-{next(self.boots)}", capacity=capacity))

    @precondition(lambda self: self.processes)
    @rule(which=any_one, forgets=st.booleans())
    def register_again(self, which: int, forgets: bool) -> None:
        """The same process begins another life; it may have dropped what it held."""
        node = pick(sorted(self.processes), which)
        old = self.processes[node]
        residents = {} if forgets else old.residents
        boot = f"boot-{next(self.boots)}"
        again = Process(inc=old.inc, boot=boot, capacity=old.capacity, residents=residents)
        again.stamp = old.stamp
        self._register(node, again)

    def _register(self, node: str, process: Process) -> None:
        registration: dict[str, Any] = self.sides.world.registration(
            node,
            boot_id=process.boot,
            previous=process.inc,
            capacity=process.capacity,
            ttl_ms=TTL_MS,
            residents=listed_ids(process.residents),
        )
        told = (process.boot, process.inc, process.capacity, list(process.residents))
        word, *rest = self.act("register_node", node, *told, **registration)
        if word == "registered":
            process.inc = int(str(rest[0]))
            self.processes[node] = process
        elif word == "superseded":
            del self.processes[node]

    @precondition(lambda self: self.processes)
    @rule(which=any_one, capacity=st.sampled_from([None, None, 0, 1, 3]), is_fit=st.booleans())
    def beat(self, which: int, capacity: int | None, is_fit: bool) -> None:
        """A node beats, and takes nothing of what it is given yet."""
        node = pick(sorted(self.processes), which)
        if capacity is not None:
            self.processes[node].capacity = capacity
        self._beat(node, media_ok=is_fit or which % 4 > 0)

    @precondition(lambda self: self.processes)
    @rule(which=any_one, steps=st.integers(min_value=1, max_value=3))
    def serve(self, which: int, steps: int) -> None:
        """A node beats, accepts all that it is given and leads it some steps along."""
        self._serve(pick(sorted(self.processes), which), steps)

    def _serve(self, node: str, steps: int, *, twice: bool = True) -> None:
        self._beat(node, twice=twice)
        if (process := self.processes.get(node)) is None:
            return
        process.residents |= dict.fromkeys(process.todo, 0)
        process.todo = []
        for resident, taken in process.residents.items():
            for step in WAY[taken:steps]:
                self._advance((node, process.inc, *resident), step, process.stamp)
            process.residents[resident] = max(taken, steps)

    def _beat(self, node: str, *, media_ok: bool = True, twice: bool = True) -> None:
        self._send_beat(node, self._snapshot(node, media_ok=media_ok), twice=twice)

    def _snapshot(self, node: str, *, media_ok: bool = True) -> dict[str, Any]:
        """Take a stamp together with what the node holds, as arguments for the scripts."""
        process = self.processes[node]
        process.stamp += 1
        return {
            "node_id": node,
            "incarnation": process.inc,
            "stamp": process.stamp,
            "state": "busy" if process.residents else "idle",
            "capacity": process.capacity,
            "draining": 0,
            "media_ok": media_ok,
            "residents": listed_ids(process.residents),
            "ended": "[]",
        }

    def _send_beat(self, node: str, beat: dict[str, Any], *, twice: bool) -> None:
        process = self.processes[node]
        report = (beat["state"], beat["capacity"], beat["media_ok"])
        held = [(name, int(epoch)) for name, epoch in json.loads(beat["residents"])]
        told = (beat["incarnation"], beat["stamp"], report, held)
        word, *rest = self.act("beat_node", node, *told, twice=twice, **beat)
        if word == "register":
            del self.processes[node]
        elif word == "ok":
            _, todo, kills, _ = rest
            process.todo = [(name, int(epoch)) for name, epoch in todo]  # type: ignore[attr-defined]
            for name, epoch, reason in kills:  # type: ignore[attr-defined]
                if reason == "fenced":
                    process.residents.pop((name, int(epoch)), None)

    @precondition(lambda self: any(p.todo for p in self.processes.values()))
    @rule(which=any_one)
    def race(self, which: int) -> None:
        """A beat is on its way that was taken before the node accepted something."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].todo], which)
        beat = self._snapshot(node)
        self.accept(which)
        self._send_beat(node, beat, twice=False)

    @precondition(lambda self: any(p.todo for p in self.processes.values()))
    @rule(which=any_one)
    def accept(self, which: int) -> None:
        node = pick([n for n in sorted(self.processes) if self.processes[n].todo], which)
        process = self.processes[node]
        name, epoch = process.todo.pop(0)
        process.residents[name, epoch] = 1
        self._advance((node, process.inc, name, epoch), "joining_room", process.stamp)

    @precondition(lambda self: self.sides.owners)
    @rule(
        which=any_one,
        state=st.sampled_from(
            ["joining_room", "starting_pipeline", "running", "draining", "closed"]
        ),
    )
    def advance(self, which: int, state: str) -> None:
        owner = pick(self.sides.owners, which)
        self._advance(owner, state, self._stamp(owner))

    def _stamp(self, owner: Owner) -> int:
        process = self.processes.get(owner[0])
        return process.stamp if process else 0

    def _advance(self, owner: Owner, target: str, stamp: int) -> None:
        quoted: dict[str, Any] = {"target": target, "stamp": stamp, "reason": "completed"}
        self.act(
            "advance_session",
            owner,
            target,
            stamp,
            twice=target != "draining",
            **named(owner),
            **quoted,
            pipeline_session_id="p",
        )

    @precondition(lambda self: self.sides.owners)
    @rule(which=any_one, reason=reasons, is_told=st.booleans())
    def end(self, which: int, reason: str, is_told: bool) -> None:
        """A node confirms an end; its own list may follow only later."""
        owner = pick(self.sides.owners, which)
        self.act("end_session", owner, reason, **named(owner), reason=reason, error="")
        if is_told:
            self._forget(owner)

    @precondition(lambda self: self.sides.owners)
    @rule(
        which=any_one,
        why=st.sampled_from(["node_shutdown", "join_failed", "service_lost"]),
        capacity=st.integers(min_value=0, max_value=2),
    )
    def give_back(self, which: int, why: str, capacity: int) -> None:
        owner = pick(self.sides.owners, which)
        now: dict[str, Any] = {"why": why, "capacity": capacity, "media_ok": 1, "unplayed_ms": 0}
        self.act("give_back", owner, why, capacity, **named(owner), **now)
        self._forget(owner)

    @precondition(lambda self: any(p.residents for p in self.processes.values()))
    @rule(which=any_one)
    def lose(self, which: int) -> None:
        """A node forgets a session that it held, without a word."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].residents], which)
        self.processes[node].residents.popitem()

    def _forget(self, owner: Owner) -> None:
        process = self.processes.get(owner[0])
        if process:
            process.residents.pop(owner[2:], None)

    @precondition(lambda self: self.processes)
    @rule(which=any_one)
    def retire(self, which: int) -> None:
        node = pick(sorted(self.processes), which)
        inc = self.processes.pop(node).inc
        self.act("retire_node", node, inc, node_id=node, incarnation=inc)

    @precondition(lambda self: self.processes)
    @rule(which=any_one)
    def die(self, which: int) -> None:
        """Kill -9: nobody is told."""
        del self.processes[pick(sorted(self.processes), which)]

    @rule()
    def blackout(self) -> None:
        """All nodes at once."""
        self.processes.clear()

    # Sweepers, lost replies, time.

    @rule(budget=st.sampled_from([1, 64]))
    def sweep_nodes(self, budget: int) -> None:
        self.act("sweep_nodes", budget, twice=budget > 1, budget=budget)

    @rule(budget=st.sampled_from([1, 64]))
    def sweep_deadlines(self, budget: int) -> None:
        self.act("sweep_deadlines", budget, twice=budget > 1, budget=budget)

    @precondition(lambda self: self.sides.calls)
    @rule(which=any_one)
    def late(self, which: int) -> None:
        """A copy of an earlier call arrives now."""
        self.sides.send(pick(self.sides.calls, which))

    @rule(ms=st.sampled_from([1, 300, 1_000, 2_000]))
    def wait(self, ms: int) -> None:
        self.sides.world.now_ms += ms

    @rule(
        seconds=st.sampled_from([4, 10, 30]),
        does_beat=st.booleans(),
        steps=st.integers(min_value=0, max_value=3),
        budget=st.sampled_from([1, 64]),
    )
    def live_on(self, seconds: int, does_beat: bool, steps: int, budget: int) -> None:
        """Time passes as in a running system: sweeps each second, beats unless all froze."""
        for second in range(seconds):
            self.sides.world.now_ms += 1_000
            if does_beat and second % 2:
                for node in sorted(self.processes):
                    self._serve(node, steps, twice=False)
            self.act("sweep_nodes", budget, twice=False, budget=budget)
            self.act("sweep_deadlines", budget, twice=False, budget=budget)

    @rule(hours=st.sampled_from([-1, 1]))
    def step_clock(self, hours: int) -> None:
        """The wall clock jumps; the next call may fire what was due within two seconds, no more."""
        self.sides.world.now_ms += hours * 3_600_000


def pick(choices: list[Any], which: int) -> Any:
    """Return one of *choices*, counted from the last."""
    return choices[-1 - (which if which < len(choices) else 0)]


def named(owner: Owner) -> dict[str, Any]:
    """An owner as script arguments."""
    node, incarnation, session, epoch = owner
    return {"node_id": node, "incarnation": incarnation, "session_id": session, "epoch": epoch}


@pytest.mark.timeout(600 if _ASKED_FOR else 120)
def test_scripts_and_model_agree(raw_redis: RawRedis) -> None:
    """After every step, in every order that the search finds."""
    run_state_machine_as_test(
        lambda: Admission(raw_redis),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
