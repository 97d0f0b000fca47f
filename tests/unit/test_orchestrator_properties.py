"""Does a pipeline keep its promises in every order of events?"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gpu_node.orchestrator.graph import Graph, Ordering, ResourceGroup, Stage
from gpu_node.orchestrator.session import Phase, PipelineSession, Work
from tests.support.graphs import sound_graphs, world_graph
from tests.support.simulated_pipeline import SimulatedPipeline

SESSIONS = ("a", "b", "c")


class Pipelines(RuleBasedStateMachine):
    """Any sound graph; pushes, completions, refusals, faults, closings and late results."""

    @initialize(graph=sound_graphs())
    def start(self, graph: Graph) -> None:
        self.pipe = SimulatedPipeline(graph)
        self.graph = graph
        self.pushed: dict[str, Counter[str]] = defaultdict(Counter)
        self.outputs: Counter[str] = Counter()
        self.failed: dict[str, BaseException] = {}
        self.late: list[Work] = []
        self.next_of: Counter[tuple[int, int]] = Counter()
        self.late_counted = 0
        for session in SESSIONS[:2]:
            self.open_one(session)
            self.push_all()

    @property
    def open(self) -> list[PipelineSession]:
        return list(self.pipe.core.sessions.values())

    @rule(session=st.sampled_from(SESSIONS))
    def open_one(self, session: str) -> None:
        if session not in self.pipe.core.sessions:
            self.pipe.open(session)
            self.pushed[session].clear()
            self.outputs[session] = 0
            self.failed.pop(session, None)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.open))
        names = data.draw(st.sets(st.sampled_from(sorted(self.pipe.plan.outside)), min_size=1))
        sequence = min(self.pushed[session.id][name] for name in names)
        names = {name for name in names if self.pushed[session.id][name] == sequence}
        before = session.held
        values = {name: (name, session.epoch, sequence) for name in names}
        if self.pipe.push(session.id, sequence, **values):
            self.pushed[session.id].update(names)
        else:
            assert session.held == before

    @rule()
    def push_all(self) -> None:
        """As much as goes in."""
        for session in self.open:
            for name in self.pipe.plan.outside:
                count = self.pushed[session.id]
                while self.pipe.push(
                    session.id, count[name], **{name: (name, session.epoch, count[name])}
                ):
                    count[name] += 1

    @precondition(lambda self: self.pipe.running)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        work = data.draw(st.sampled_from(list(self.pipe.running.values())))
        self.pipe.complete(work)
        self.late.append(work)

    @precondition(lambda self: self.pipe.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        work = data.draw(st.sampled_from(list(self.pipe.running.values())))
        phases = {one.id: one.phase for one in self.open if one.id != work.session}
        self.pipe.fail(work, RuntimeError("planted"))
        assert phases == {one.id: one.phase for one in self.open if one.id != work.session}
        if work.session in self.pipe.core.sessions:
            assert self.pipe.core.session(work.session).phase is not Phase.RUNNING

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        """An actor that is out of its mind says again what it said; nothing changes but a count."""
        work = data.draw(st.sampled_from(self.late))
        held = {one.id: one.held for one in self.open}
        self.pipe.complete(work)
        assert held == {one.id: one.held for one in self.open}
        self.late_counted += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.open))
        output = self.pipe.take(session.id)
        if output is not None:
            assert output.sequence == self.outputs[session.id]
            assert set(output.values) == set(self.graph.outputs)
            for value in output.values.values():
                check_descent(value, session.id, session.epoch, output.sequence)
            self.outputs[session.id] += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.open))
        self.pipe.close(session.id)
        assert session.held == 0
        if not session.in_flight:
            self.pipe.clean(session.id)

    @precondition(lambda self: self.open)
    @rule()
    def everything_pushed_comes_out(self) -> None:
        """Nothing blocks itself: with time and a taker, all complete sequences leave."""
        for _ in range(200):
            for work in list(self.pipe.running.values()):
                self.complete_quietly(work)
            for session in self.open:
                while self.pipe.take(session.id) is not None:
                    self.outputs[session.id] += 1
            if not self.pipe.running:
                break
        for session in self.open:
            if session.phase is Phase.RUNNING:
                wanted = min(self.pushed[session.id][name] for name in self.pipe.plan.outside)
                assert self.outputs[session.id] == wanted

    def complete_quietly(self, work: Work) -> None:
        if work.request in self.pipe.running:
            self.pipe.complete(work)

    @invariant()
    def limits_hold(self) -> None:
        if not hasattr(self, "pipe"):
            return
        stages = self.pipe.plan.steps
        running = list(self.pipe.running.values())
        in_all = Counter(work.stage for work in running)
        in_one = Counter((work.session, work.epoch, work.stage) for work in running)
        in_group = Counter(stages[work.stage].stage.resource_group for work in running)
        assert all(count <= stages[n].stage.in_flight for n, count in in_all.items())
        assert all(
            count <= stages[n].stage.in_flight_per_session for (_, _, n), count in in_one.items()
        )
        assert all(in_group[group.name] <= group.in_flight for group in self.graph.resource_groups)
        room = sum(edge.capacity for edge in self.graph.edges)
        room += self.graph.output_capacity * len(self.graph.outputs)
        assert all(session.held <= room for session in self.open)

    @invariant()
    def strict_stages_begin_in_order(self) -> None:
        if not hasattr(self, "pipe"):
            return
        for work in self.pipe.begun:
            if self.pipe.plan.steps[work.stage].stage.ordering is Ordering.STRICT:
                key = (work.epoch, work.stage)
                assert work.sequence == self.next_of[key]
                self.next_of[key] += 1
        self.pipe.begun.clear()

    @invariant()
    def nothing_leaks(self) -> None:
        if not hasattr(self, "pipe"):
            return
        found = self.pipe.core.diagnostics
        assert found.slot_leaks == 0
        assert found.duplicate + found.orphaned + found.stale_epoch == self.late_counted


def check_descent(value: Any, session: str, epoch: int, sequence: int) -> None:
    """A value and all that it was made of belong to one session, epoch and sequence."""
    if len(value) == 3:
        assert value[1:] == (epoch, sequence)
        return
    assert value[2:4] == (session, sequence)
    for _, part in value[4]:
        check_descent(part, session, epoch, sequence)


TestPipelines = Pipelines.TestCase
TestPipelines.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(graph=sound_graphs(), refuses=st.sets(st.integers(0, 80)))
@settings(max_examples=60, deadline=None)
def test_a_busy_actor_loses_nothing(graph: Graph, refuses: set[int]) -> None:
    """What a full mailbox refused comes back in its place and is begun later."""
    pipe = SimulatedPipeline(graph, refuses=lambda work: work.request in refuses)
    taken: Counter[str] = Counter()
    pushed: Counter[tuple[str, str]] = Counter()
    for name in SESSIONS:
        pipe.open(name)
    for _ in range(200):
        for name, artifact in itertools.product(SESSIONS, pipe.plan.outside):
            sequence = pushed[name, artifact]
            if sequence < 4 and pipe.push(name, sequence, **{artifact: (artifact, 0, sequence)}):
                pushed[name, artifact] += 1
        for name in SESSIONS:
            taken[name] += pipe.take(name) is not None
        pipe.run(1.0)
        pipe.free_actors()
    assert dict(taken) == dict.fromkeys(SESSIONS, 4)


@given(
    crowd=st.integers(2, 6),
    shared=st.booleans(),
    slow=st.sampled_from(["encode", "denoise", "decode"]),
)
@settings(max_examples=30, deadline=None)
def test_sessions_take_turns(crowd: int, shared: bool, slow: str) -> None:
    """While all have work, no session is ever two chunks ahead of another at the narrow stage."""
    graph = world_graph()
    if shared:
        graph = world_graph(
            stages=tuple(
                Stage(id=one.id, consumes=one.consumes, produces=one.produces, resource_group="gpu")
                for one in graph.stages
            ),
            resource_groups=(ResourceGroup(name="gpu"),),
        )
    pipe = SimulatedPipeline(graph, lambda work: 3.0 if pipe.stage(work) == slow else 1.0)
    names = [f"s{n}" for n in range(crowd)]
    for name in names:
        pipe.open(name)
    sent: Counter[str] = Counter()
    for _ in range(200):
        for name in names:
            while pipe.push(name, sent[name], prompt="p", control="c"):
                sent[name] += 1
            while pipe.take(name) is not None:
                pass
        pipe.run(1.0)
    begun = [pipe.begun_by(slow)[name] for name in names]
    assert max(begun) - min(begun) <= 1
    assert sum(begun) >= (25 if shared else 60)
