"""Do the real scripts and a small model of them agree, whatever happens in whatever order?

Hypothesis plays clients, nodes, operators, sweepers, the clock, and a server that loses its last
writes, or all. Calls are sent twice, or again much later, as after a lost reply. At the end of each
run the faults end, too, and it has to come to rest. GREENROOM_MODEL_EXAMPLES asks for a longer
search, which also shortens what it finds; that takes minutes.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from tests.model.fleet import Fleet, Process, named
from tests.model.node_model import Owner
from tests.support.redis_server import FLAVOURS, RawRedis
from tests.support.scenario import sid

_ASKED_FOR = os.environ.get("GREENROOM_MODEL_EXAMPLES")
EXAMPLES = int(_ASKED_FOR or "24")
PHASES = [Phase.explicit, Phase.generate, *([Phase.reuse, Phase.shrink] if _ASKED_FOR else [])]
STEPS = 100 if _ASKED_FOR else 60
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
LIMITS = {
    "queued": 20_000,
    "assigned": 7_000,
    "joining": 9_000,
    "starting": 12_000,
    "session": 40_000,
    "draining": 10_000,
}
UNUSED = {"d_controller": 0, "d_room_empty": 0}
NO_SILENCE = {"unplayed_ms": 0, "earlier_ms": 0}

NODES = ("n1", "n2", "n3")
nodes = st.sampled_from(NODES)
any_one = st.integers(min_value=0, max_value=30)
"""Which of many, counted from the newest; the newest for numbers beyond them."""
reasons = st.sampled_from(["client_stop", "completed", "service_error", "session_timeout"])


class Admission(Fleet):
    """One pool, three nodes, and as many clients as come."""

    def __init__(self, raw: RawRedis) -> None:
        super().__init__(raw)
        self.letters = iter(LETTERS)

    @initialize(
        capacities=st.lists(st.integers(min_value=1, max_value=3), min_size=1, max_size=3),
        synced_after=st.integers(min_value=0, max_value=3),
    )
    def begin(self, capacities: list[int], synced_after: int) -> None:
        """Some nodes serve a session each, and some clients wait; part of it may be lost later."""
        for number, (node, capacity) in enumerate(zip(NODES, capacities, strict=False)):
            if number == synced_after:
                self.sides.remember()
            self.start(node, capacity)
            self.open(100, patient=True, key="")
            self.serve(self.processes[node], 3)
            self.open(100, patient=False, key="")

    # Clients and operators.

    @rule(
        queue_size=st.sampled_from([0, 2, 100]),
        patient=st.booleans(),
        key=st.sampled_from(["", "", "a1", "b2"]),
    )
    def open(self, queue_size: int, patient: bool, key: str) -> None:
        """A client comes; some ask twice under one idempotency key."""
        if (letter := next(self.letters, None)) is None:
            return
        limits = LIMITS | ({"queued": 0} if patient else {})
        durations = {f"d_{kind}": limit for kind, limit in limits.items()} | UNUSED
        opening: dict[str, Any] = self.sides.world.opening(
            letter, queue_size=queue_size, idempotency_hash=key, **durations
        )
        self.act("open_session", sid(letter), queue_size, limits, key, **opening)

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
        self.start(node, capacity)

    def any_process(self, which: int) -> Process:
        return self.processes[pick(sorted(self.processes), which)]

    @precondition(lambda self: self.processes)
    @rule(which=any_one, forgets=st.booleans())
    def register_again(self, which: int, forgets: bool) -> None:
        """The same process begins another life; it may have dropped what it held."""
        process = self.any_process(which)
        if forgets:
            process.residents = {}
        self.begin_again(process)

    @precondition(lambda self: self.processes)
    @rule(which=any_one, capacity=st.sampled_from([None, None, 0, 1, 3]), is_fit=st.booleans())
    def beat_only(self, which: int, capacity: int | None, is_fit: bool) -> None:
        """A node beats, and takes nothing of what it is given yet."""
        process = self.any_process(which)
        if capacity is not None:
            process.capacity = capacity
        process.media_ok = is_fit or which % 4 > 0
        self.beat(process)
        process.media_ok = True

    @precondition(lambda self: self.processes)
    @rule(which=any_one, steps=st.integers(min_value=1, max_value=3))
    def lead_on(self, which: int, steps: int) -> None:
        """A node beats, accepts all that it is given and leads it some steps along."""
        self.serve(self.any_process(which), steps)

    @precondition(lambda self: any(p.todo for p in self.processes.values()))
    @rule(which=any_one, is_racing=st.booleans())
    def accept(self, which: int, is_racing: bool) -> None:
        """A node takes one session; a beat may be on its way that was taken before."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].todo], which)
        process = self.processes[node]
        beat = self.snapshot(process) if is_racing else None
        self.take_step(process, self.take_up(process), "joining_room")
        if beat:
            self.send_beat(process, beat, twice=False)

    @precondition(lambda self: any(p.claims for p in self.processes.values()))
    @rule(which=any_one)
    def bring_some_back(self, which: int) -> None:
        """A node answers late what the registry asked for."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].claims], which)
        self.bring_back(self.processes[node])

    @precondition(lambda self: self.sides.invariants.owners)
    @rule(
        which=any_one,
        state=st.sampled_from(
            ["joining_room", "starting_pipeline", "running", "draining", "closed"]
        ),
    )
    def advance_any(self, which: int, state: str) -> None:
        owner = self.any_owner(which)
        process = self.processes.get(owner[0])
        self.advance(owner, state, process.stamp if process else 0)

    def any_owner(self, which: int) -> Owner:
        owner: Owner = pick(self.sides.invariants.owners, which)
        return owner

    @precondition(lambda self: self.sides.invariants.owners)
    @rule(which=any_one, reason=reasons, is_told=st.booleans())
    def end_any(self, which: int, reason: str, is_told: bool) -> None:
        self.end(self.any_owner(which), reason, is_told=is_told)

    @precondition(lambda self: self.sides.invariants.owners)
    @rule(
        which=any_one,
        why=st.sampled_from(
            [
                "node_shutdown",
                "node_drained",
                "join_failed",
                "service_lost",
                "gpu_lost",
                "media_lost",
            ]
        ),
        capacity=st.integers(min_value=0, max_value=2),
    )
    def give_back(self, which: int, why: str, capacity: int) -> None:
        owner = self.any_owner(which)
        media_ok = int(why != "media_lost")
        now: dict[str, Any] = {"capacity": capacity, "media_ok": media_ok, **NO_SILENCE}
        self.act("give_back", owner, why, capacity, **named(owner), why=why, **now)
        if why != "node_drained":
            self.forget(owner)

    @precondition(lambda self: self.sides.invariants.owners)
    @rule(which=any_one, ahead=st.sampled_from([0, 1, 1_000_000]), is_heard=st.booleans())
    def rebase(self, which: int, ahead: int, is_heard: bool) -> None:
        """A worker met a higher epoch in its room; the answer may be lost."""
        owner = self.any_owner(which)
        seen = owner[3] - 1 + ahead
        word, *told = self.act("rebase_epoch", owner, seen, **named(owner), seen=seen)
        process = self.processes.get(owner[0])
        if word == "rebased" and is_heard and process and owner[2:] in process.residents:
            taken = process.residents.pop(owner[2:])
            process.residents[owner[2], int(str(told[0]))] = taken

    @precondition(lambda self: any(p.residents for p in self.processes.values()))
    @rule(which=any_one)
    def crash_child(self, which: int) -> None:
        """The model's process dies with all that it held, and is there again at the next beat."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].residents], which)
        process = self.processes[node]
        for resident in list(process.residents):
            owner, why = process.owner(resident), "service_lost"
            down: dict[str, Any] = {"capacity": 0, "media_ok": 1, **NO_SILENCE}
            self.act("give_back", owner, why, 0, **named(owner), why=why, **down)
        process.residents.clear()

    @precondition(lambda self: any(p.residents for p in self.processes.values()))
    @rule(which=any_one)
    def lose_one(self, which: int) -> None:
        """A node forgets a session that it held, without a word."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].residents], which)
        self.processes[node].residents.popitem()

    @rule(
        node=nodes,
        admin=st.sampled_from(["open", "draining"]),
        move_in_ms=st.sampled_from([None, 3_000]),
        is_late=st.booleans(),
    )
    def set_admin(self, node: str, admin: str, move_in_ms: int | None, is_late: bool) -> None:
        """An operator closes a node to newcomers, or opens it; its sessions may have to move."""
        looked_at = {"replaces": "order-0"} if is_late else {}
        self.order(node, admin, move_in_ms if admin == "draining" else None, **looked_at)

    @rule(node=nodes, capacity=st.sampled_from([None, 0, 1, 1, 2]), is_late=st.booleans())
    def set_limit(self, node: str, capacity: int | None, is_late: bool) -> None:
        """An operator allows a node fewer sessions than it offers, or all of them again."""
        self.limit(node, capacity, **({"replaces": "order-0"} if is_late else {}))

    @precondition(lambda self: self.processes)
    @rule(
        which=any_one,
        how=st.sampled_from(["drain", "retire", "die", "freeze", "freeze", "blackout"]),
    )
    def leave(self, which: int, how: str) -> None:
        """SIGTERM, its end, kill -9, SIGSTOP of one node; or all nodes are gone at once."""
        process = self.any_process(which)
        if how == "drain":  # it takes nobody new
            process.draining = True
            return
        if how == "blackout" and which == 0:
            self.processes.clear()
            return
        del self.processes[process.node]
        if how == "retire":
            self.act("retire_node", process.node, process.inc, **lived(process))
        elif how == "freeze":  # it keeps all that it believes
            self.frozen[process.node] = process

    @precondition(lambda self: self.frozen)
    @rule(which=any_one, steps=st.integers(min_value=1, max_value=3))
    def wake(self, which: int, steps: int) -> None:
        """It goes on where it stood; another process may have taken its name meanwhile."""
        node = pick(sorted(self.frozen), which)
        other = self.processes.get(node)
        self.processes[node] = self.frozen.pop(node)
        self.serve(self.processes[node], steps)
        if other is not None:
            if old := self.processes.get(node):
                self.frozen[node] = old
            self.processes[node] = other

    # The server.

    @rule()
    def sync(self) -> None:
        """The log is on the disk so far: what comes now may be lost."""
        self.sides.remember()

    @precondition(lambda self: any(p.residents for p in self.processes.values()))
    @rule(
        everything=st.sampled_from([False, False, True]),
        seconds=st.sampled_from([0, 4, 12]),
        steps=st.integers(min_value=0, max_value=3),
    )
    def lose(self, everything: bool, seconds: int, steps: int) -> None:
        """The server comes back without its last writes, or empty, as another run of itself.

        The nodes may go on as if nothing had been.
        """
        self.sides.lose(everything=everything)
        if seconds:
            self.live_on(seconds, True, steps, 64, 0, False)

    @precondition(lambda self: any(p.residents for p in self.processes.values()))
    @rule(which=any_one, wakes=st.booleans(), seconds=st.sampled_from([2, 6, 14]))
    def lose_a_move(self, which: int, wakes: bool, seconds: int) -> None:
        """Sessions have moved on when the server forgets that; their first node may wake."""
        node = pick([n for n in sorted(self.processes) if self.processes[n].residents], which)
        self.sides.remember()
        self.frozen[node] = self.processes.pop(node)
        self.live_on(14, True, 3, 64, 0, False)
        self.sides.lose(everything=False)
        if wakes:
            self.processes[node] = self.frozen.pop(node)
        self.live_on(seconds, True, 3, 64, 0, False)

    # Sweepers, lost replies, time.

    @rule(
        script=st.sampled_from(["sweep_nodes", "sweep_deadlines"]), budget=st.sampled_from([1, 64])
    )
    def sweep_once(self, script: str, budget: int) -> None:
        self.act(script, budget, twice=budget > 1, budget=budget)

    @precondition(lambda self: self.sides.calls)
    @rule(which=any_one)
    def late(self, which: int) -> None:
        """A copy of an earlier call arrives now."""
        self.sides.send(pick(self.sides.calls, which))

    @rule(ms=st.sampled_from([1, 300, 1_000, 2_000, 4_500, -3_600_000, 3_600_000]))
    def wait(self, ms: int) -> None:
        """Nobody calls, or the wall clock jumps: the next call makes two seconds of it at most."""
        self.sides.world.now_ms += ms

    @rule(
        seconds=st.sampled_from([4, 10, 30]),
        does_beat=st.booleans(),
        steps=st.integers(min_value=0, max_value=3),
        budget=st.sampled_from([1, 64]),
        stall_every=st.sampled_from([0, 0, 6, 12]),
        restarts=st.booleans(),
    )
    def live_on(
        self,
        seconds: int,
        does_beat: bool,
        steps: int,
        budget: int,
        stall_every: int,
        restarts: bool,
    ) -> None:
        """Time passes as in a running system: sweeps each second, beats unless all froze.

        All sweepers may stall for 2.6 s now and then; the nodes beat on meanwhile. What isn't there
        may be started again.
        """
        for node in NODES if restarts else ():
            if node not in self.processes:
                self.start(node, 2)
        for second in range(seconds):
            is_stalled = stall_every and second % stall_every == stall_every - 1
            self.sides.world.now_ms += 2_600 if is_stalled else 1_000
            if does_beat and (second % 2 or is_stalled):
                for process in self.running():
                    self.serve(process, steps, twice=False)
            if not is_stalled:
                self.sweep(budget)


def pick(choices: list[Any], which: int) -> Any:
    """Return one of *choices*, counted from the last."""
    return choices[-1 - (which if which < len(choices) else 0)]


def lived(process: Process) -> dict[str, Any]:
    """A life as script arguments."""
    return {"node_id": process.node, "incarnation": process.inc}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("redis_flavour", FLAVOURS)
def test_scripts_and_model_agree(raw_redis: RawRedis) -> None:
    """After every step, in every order that the search finds."""
    run_state_machine_as_test(
        lambda: Admission(raw_redis),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES if _ASKED_FOR else EXAMPLES // len(FLAVOURS),
            stateful_step_count=STEPS,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
