"""How do the processes of nodes behave towards a registry, whatever has become of it?

Each believes what it was told last: it lists what it holds, takes what it is given, lets go of what
the kill list names, and brings back what a registry that lost data asks for. What a process does is
written as plain methods here; in which order and how late they happen is the search's business.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from shared.store.nodes import digests_of
from tests.model.both_sides import BothSides, Call
from tests.model.node_model import TTL_MS, Bundle, Listed, Owner, Reply, Report
from tests.support.redis_server import RawRedis
from tests.support.scenario import listed_ids

WAY = ("joining_room", "starting_pipeline", "running")
ENDED_KEPT = 16
SETTLED_AFTER_BEATS = 15
"""A grace, the leases of the dead and the clean-up limit are over by then."""
AGE_MS = 500
"""How long a session was played since it was packed."""


@dataclass(slots=True, kw_only=True)
class Process:
    """A node's process, and what it believes."""

    node: str
    inc: int
    boot: str
    capacity: int
    stamp: int = 0
    draining: bool = False
    media_ok: bool = True
    residents: dict[tuple[str, int], int] = field(default_factory=dict)
    """What it holds (session, epoch), and how many steps of each were confirmed."""
    todo: Listed = field(default_factory=list)
    stops: list[tuple[str, int, str]] = field(default_factory=list)
    """What it was asked to end, and why."""
    claims: Listed = field(default_factory=list)
    """What it was asked to bring back."""
    bundles: dict[str, tuple[str, Bundle]] = field(default_factory=dict)
    ended: list[tuple[str, int, str]] = field(default_factory=list)
    """What it has ended: told again in each beat."""

    def owner(self, resident: tuple[str, int]) -> Owner:
        return (self.node, self.inc, *resident)

    def step(self, resident: tuple[str, int]) -> str:
        """How far a resident has come, '' before its first step."""
        taken = self.residents[resident]
        return WAY[taken - 1] if taken else ""


class Fleet(RuleBasedStateMachine):
    """One pool and the processes of its nodes."""

    def __init__(self, raw: RawRedis) -> None:
        super().__init__()
        self.sides = BothSides(raw)
        self.processes: dict[str, Process] = {}
        self.frozen: dict[str, Process] = {}
        """What stands still and may wake."""
        self.boots = count()

    def act(self, script: str, *model: object, twice: bool = True, **real: Any) -> Reply:
        """Send one call, and once more in the same instant."""
        call = Call(script=script, model=model, real=real)
        self.sides.calls.append(call)
        reply = self.sides.send(call)
        if twice:
            self.sides.repeat(call)
        return reply

    # Lives.

    def start(self, node: str, capacity: int) -> None:
        """A fresh process begins."""
        boot = f"boot-{next(self.boots)}"
        self.register(Process(node=node, inc=0, boot=boot, capacity=capacity))

    def begin_again(self, process: Process) -> None:
        """The same process begins another life with what it holds."""
        process.boot = f"boot-{next(self.boots)}"
        process.todo, process.stops, process.claims = [], [], []
        self.register(process)

    def register(self, process: Process) -> None:
        node = process.node
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
        elif word == "superseded" and self.processes.get(node) is process:
            del self.processes[node]

    # Beats.

    def snapshot(self, process: Process) -> tuple[Report, dict[str, Any]]:
        """Take a stamp together with what the node holds, for the model and for the scripts."""
        process.stamp += 1
        report = Report(
            state="busy" if process.residents else "idle",
            capacity=process.capacity,
            media_ok=process.media_ok,
            draining=process.draining,
            steps={resident: process.step(resident) for resident in process.residents},
            ended=tuple(process.ended),
        )
        rows = [
            [name, str(epoch), 0, 0, process.stamp // 3 % 2, *([step] if step else [])]
            for (name, epoch), step in report.steps.items()
        ]
        real: dict[str, Any] = {
            "node_id": process.node,
            "incarnation": process.inc,
            "stamp": process.stamp,
            "state": report.state,
            "capacity": report.capacity,
            "draining": int(report.draining),
            "media_ok": int(report.media_ok),
            "residents": json.dumps(rows),
            "ended": json.dumps([[name, str(epoch), why] for name, epoch, why in process.ended]),
            "gpus": "",
        }
        return report, real | digests_of(real)

    def beat(self, process: Process, *, twice: bool = True) -> None:
        self.send_beat(process, self.snapshot(process), twice=twice)

    def send_beat(
        self, process: Process, beat: tuple[Report, dict[str, Any]], *, twice: bool
    ) -> None:
        report, real = beat
        told = (process.node, real["incarnation"], real["stamp"], report)
        word, *rest = self.act("beat_node", *told, twice=twice, **real)
        if word == "register":
            if rest == ["drop"]:
                process.residents.clear()
            self.begin_again(process)
        elif word == "ok":
            self._obey(process, rest)

    def _obey(self, process: Process, told: list[Any]) -> None:
        _, todo, kills, adopt = told[:4]
        process.todo = [(name, int(epoch)) for name, epoch in todo]
        process.claims = [(name, int(epoch)) for name, epoch in adopt]
        process.stops = []
        for name, epoch, reason in kills:
            if reason == "fenced":
                process.residents.pop((name, int(epoch)), None)
            else:
                process.stops.append((name, int(epoch), reason))

    # What it holds.

    def serve(self, process: Process, steps: int, *, twice: bool = True) -> None:
        """Beat, bring back what was lost, accept what is given, and lead all some steps along."""
        self.beat(process, twice=twice)
        if self.processes.get(process.node) is not process:
            return
        self.bring_back(process)
        while process.todo:
            self.take_up(process)
        for resident in list(process.residents):
            for step in WAY[process.residents[resident] : steps]:
                if not self.take_step(process, resident, step):
                    break

    def take_up(self, process: Process) -> tuple[str, int]:
        """Hold the next session that it was given, and keep what is needed to bring it back."""
        resident = process.todo.pop(0)
        process.residents.setdefault(resident, 0)
        self.pack(process, resident[0])
        return resident

    def pack(self, process: Process, name: str) -> None:
        if kept := self.sides.pack(name):
            process.bundles[name] = kept

    def take_step(self, process: Process, resident: tuple[str, int], step: str) -> bool:
        """Whether the registry confirmed it."""
        word, *_ = self.advance(process.owner(resident), step, process.stamp)
        if word != "moved":
            return False
        process.residents[resident] = WAY.index(step) + 1
        if step == "running":
            self.pack(process, resident[0])
        return True

    def bring_back(self, process: Process) -> None:
        """Give the registry what it asked for; what nobody kept is lost."""
        asked, process.claims = process.claims, []
        for resident in asked:
            if resident not in process.residents:
                continue
            if resident[0] not in process.bundles:
                self.pack(process, resident[0])
            if kept := process.bundles.get(resident[0]):
                self._claim(process, resident, kept)
            else:
                del process.residents[resident]

    def _claim(self, process: Process, resident: tuple[str, int], kept: tuple[str, Bundle]) -> None:
        owner, state = process.owner(resident), process.step(resident) or WAY[0]
        text, bundle = kept
        real: dict[str, Any] = {"stamp": process.stamp, "state": state, "age_ms": AGE_MS}
        told = (process.stamp, state, bundle, AGE_MS)
        self.act("adopt_session", owner, *told, **named(owner), **real, bundle=text)

    def stop_what_it_must(self, process: Process) -> None:
        """End all that the kill list asked for."""
        for name, epoch, reason in process.stops:
            if (name, epoch) in process.residents:
                self.end(process.owner((name, epoch)), reason, is_told=True)
        process.stops = []

    def end(self, owner: Owner, reason: str, *, is_told: bool) -> None:
        """A node confirms an end; its own list may follow only later."""
        self.act("end_session", owner, reason, **named(owner), reason=reason, error="")
        process = self.processes.get(owner[0])
        if is_told and process and process.residents.pop(owner[2:], None) is not None:
            process.ended = [*process.ended, (*owner[2:], reason)][-ENDED_KEPT:]

    def advance(self, owner: Owner, target: str, stamp: int) -> Reply:
        quoted: dict[str, Any] = {"target": target, "stamp": stamp, "reason": "completed"}
        return self.act(
            "advance_session",
            owner,
            target,
            stamp,
            twice=target != "draining",
            **named(owner),
            **quoted,
            pipeline_session_id="p",
        )

    def forget(self, owner: Owner) -> None:
        """What a node holds no more, by whatever it was lost."""
        if process := self.processes.get(owner[0]):
            process.residents.pop(owner[2:], None)

    # All of them.

    def running(self) -> list[Process]:
        return [self.processes[node] for node in sorted(self.processes)]

    def sweep(self, budget: int) -> None:
        self.act("sweep_nodes", budget, twice=False, budget=budget)
        self.act("sweep_deadlines", budget, twice=False, budget=budget)

    def order(self, node: str, admin: str, move_in_ms: int | None, **told: Any) -> None:
        moving = "" if move_in_ms is None else move_in_ms
        order: dict[str, Any] = self.sides.world.order(node, admin, move_in_ms=moving, **told)
        known = (node, admin, move_in_ms, order["order"], order["replaces"])
        self.act("set_node_admin", *known, **order)

    def limit(self, node: str, capacity: int | None, **told: Any) -> None:
        order: dict[str, Any] = self.sides.world.limit(
            node, "" if capacity is None else capacity, **told
        )
        self.act("set_node_capacity", node, capacity, order["order"], order["replaces"], **order)

    # The end.

    def teardown(self) -> None:
        if self.sides.is_agreed:
            self.settle()

    def settle(self) -> None:
        """Faults end, who still runs serves on: nothing hangs, and nobody waits without need."""
        for process in self.running():
            self.order(process.node, "open", None)
            self.limit(process.node, None)
            process.capacity, process.draining = max(process.capacity, 1), False
        for _ in range(SETTLED_AFTER_BEATS):
            self.sides.world.now_ms += 2_000
            for process in self.running():
                self.serve(process, 3, twice=False)
                self.stop_what_it_must(process)
            self.sweep(64)
        self._is_settled()

    def _is_settled(self) -> None:
        model = self.sides.model
        held = {
            p.node: set(model.follow_rebases(p.node, list(p.residents))) for p in self.running()
        }
        for name, s in model.sessions.items():
            if s.is_live and s.state not in ("queued", "assigned"):
                assert s.state != "draining" or s.at, f"{name} never ends"
                assert (name, s.epoch) in held.get(s.node, ()), f"nobody plays {name}"
        for node, residents in held.items():
            known = {(name, epoch) for name, epoch, _ in model.members(node)}
            assert residents <= known, f"{node} plays what isn't its own"
            given = [model.sessions[name].state for name, _ in known - residents]
            assert set(given) <= {"assigned"}, f"{node} doesn't hold what it should"
        alive = {nid for nid, n in model.nodes.items() if n.lease is not None}
        assert alive == held.keys(), "a node that is gone has a lease, or one that runs has none"
        assert not (model.line and model.free), "somebody waits and a slot is free"


def named(owner: Owner) -> dict[str, Any]:
    """An owner as script arguments."""
    node, incarnation, session, epoch = owner
    return {"node_id": node, "incarnation": incarnation, "session_id": session, "epoch": epoch}
