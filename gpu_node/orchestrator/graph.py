"""Which stages does a service have, and what flows between them?

A graph is plain data. *Stages* consume and produce *artifacts*; an *edge* carries one artifact from
the stage that makes it, or from outside, to one stage that needs it. Everything carries a sequence
number: for sequence 7 a stage takes artifact 7 of each kind that it consumes and makes number 7 of
each kind that it produces.

An edge's capacity is a **window of sequences**: its source may run that far ahead of its target.
With *b* the lowest sequence that the target hasn't begun, only *b* … *b + capacity - 1* may be on
the edge or on their way to it. A stage begins a sequence only inside the windows of everything that
it produces, so it never completes into a full edge: the room was there when it began, and windows
only move up. The lowest unfinished sequence always lies in every window, so nothing can block
itself, in whatever order unordered stages complete.

A *latched* artifact has no sequence: it comes from outside, its newest value counts, and a stage
reads it at the moment when it begins. That is what a held key is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_node.orchestrator.faults import faults_of
from shared.errors import GraphFault


class Ordering(StrEnum):
    """In which order a stage begins the sequences of one session."""

    STRICT = "strict"
    """One after the other, as a stage must that keeps state from chunk to chunk."""
    NONE = "none"
    """As their inputs come in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One kind of thing that flows through the graph."""

    name: str
    type: type = object
    """What each value must be an instance of; checked where it enters the graph."""
    latched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of the work, run by the actor of the same name."""

    id: str
    consumes: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    ordering: Ordering = Ordering.STRICT
    in_flight_per_session: int = 1
    in_flight: int = 1
    """Of all sessions together; also what the actor's mailbox must hold."""
    resource_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The way of one artifact to one stage."""

    artifact: str
    target: str
    source: str | None = None
    """None: it comes from outside."""
    capacity: int = 1
    """Sequences by which the source may run ahead of the target, per session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """Stages that share a thing, such as one GPU."""

    name: str
    in_flight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Everything that a pipeline is made of, but for the code."""

    artifacts: tuple[Artifact, ...]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    outputs: tuple[str, ...]
    output_capacity: int = 1
    """Sequences that may be finished or on their last step before the first of them is taken."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    anchor: str | None = None
    """The artifact from outside from whose arrival an output's latency counts: the control."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stage with what the scheduler asks about it at every turn, looked up once."""

    stage: Stage
    takes: tuple[tuple[int, str], ...]
    """Edges into it, by number, with their artifacts; without latched ones."""
    latches: tuple[str, ...]
    gives: dict[str, tuple[int, ...]]
    """Edges out of it per produced artifact."""
    room_on: tuple[int, ...]
    """All edges out of it."""
    makes_output: bool
    before: tuple[tuple[int, int], ...]
    """Per edge into it from a stage: the edge's and the stage's number."""
    after: tuple[int, ...]
    """Stages that its products go to, by number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph that was found sound."""

    graph: Graph
    steps: tuple[Step, ...]
    """In topological order; what is called a stage's number is its place here."""
    types: dict[str, type]
    outside: dict[str, tuple[int, ...]]
    """Per artifact from outside that isn't latched: the edges that it goes to."""
    latched: dict[str, tuple[int, ...]]
    """Per latched artifact: the stages that read it, by number."""
    targets: tuple[int, ...]
    """Per edge: the stage that it leads to, by number."""

    def number_of(self, stage_id: str) -> int:
        """Return a stage's number."""
        return next(n for n, step in enumerate(self.steps) if step.stage.id == stage_id)


def plan(graph: Graph) -> Plan:
    """Return *graph* ready to run; raise `GraphFault` with a sentence per fault."""
    found = faults_of(graph)
    if found:
        raise GraphFault(faults=tuple(found))
    ordered = _in_order(graph)
    number = {stage.id: at for at, stage in enumerate(ordered)}
    latched = {one.name for one in graph.artifacts if one.latched}
    return Plan(
        graph=graph,
        steps=tuple(_step(graph, stage, number, latched) for stage in ordered),
        types={one.name: one.type for one in graph.artifacts},
        outside={
            name: tuple(at for at, edge in enumerate(graph.edges) if edge.artifact == name)
            for name in dict.fromkeys(edge.artifact for edge in graph.edges if edge.source is None)
            if name not in latched
        },
        latched={
            name: tuple(number[edge.target] for edge in graph.edges if edge.artifact == name)
            for name in sorted(latched)
        },
        targets=tuple(number[edge.target] for edge in graph.edges),
    )


def _step(graph: Graph, stage: Stage, number: dict[str, int], latched: set[str]) -> Step:
    edges = list(enumerate(graph.edges))
    into = [(at, edge) for at, edge in edges if edge.target == stage.id]
    out = [(at, edge) for at, edge in edges if edge.source == stage.id]
    return Step(
        stage=stage,
        takes=tuple((at, edge.artifact) for at, edge in into if edge.artifact not in latched),
        latches=tuple(edge.artifact for _, edge in into if edge.artifact in latched),
        gives={
            name: tuple(at for at, edge in out if edge.artifact == name) for name in stage.produces
        },
        room_on=tuple(at for at, _ in out),
        makes_output=any(name in graph.outputs for name in stage.produces),
        before=tuple((at, number[edge.source]) for at, edge in into if edge.source is not None),
        after=tuple(dict.fromkeys(number[edge.target] for _, edge in out)),
    )


def _in_order(graph: Graph) -> list[Stage]:
    """The stages, each after all those that feed it; among equals as they were written."""
    waits_for = {
        stage.id: {e.source for e in graph.edges if e.target == stage.id and e.source is not None}
        for stage in graph.stages
    }
    ordered: list[Stage] = []
    while len(ordered) < len(graph.stages):
        done = {stage.id for stage in ordered}
        ordered.append(
            next(s for s in graph.stages if s.id not in done and waits_for[s.id] <= done)
        )
    return ordered
