"""What is wrong with this graph?

Every check says what it found in one sentence that names the stage, edge or artifact and what to
do. All of them are told at once, but shapes are only looked at when all names are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_node.orchestrator.graph import Edge, Graph


def faults_of(graph: Graph) -> list[str]:
    """Return one sentence per fault of *graph*; none if it can run."""
    for checks in (
        (_repeated_names, _bad_numbers),
        (_unknown_names,),
        (_producers, _edge_ends, _missing_edges, _groups, _latches),
        (_cycles,),
        (_dead_ends, _parts),
    ):
        found = [fault for check in checks for fault in check(graph)]
        if found:
            return found
    return []


def actor_faults(graph: Graph, codes: Mapping[str, Sequence[object]]) -> list[str]:
    """Return what is wrong with the actors of *graph*, named with the code that each owns."""
    stages = {stage.id for stage in graph.stages}
    faults = [f"Stage {name!r} has no actor; give it one." for name in sorted(stages - set(codes))]
    faults += [f"There is no stage for the actor {name!r}." for name in sorted(set(codes) - stages)]
    owners: dict[int, str] = {}
    for name, owned in codes.items():
        for code in owned:
            if id(code) in owners:
                faults.append(
                    f"The actors {owners[id(code)]!r} and {name!r} share code; it needs one owner."
                )
            owners[id(code)] = name
    return faults


def _repeated_names(graph: Graph) -> Iterator[str]:
    kinds = {
        "artifact": [one.name for one in graph.artifacts],
        "stage": [one.id for one in graph.stages],
        "resource group": [one.name for one in graph.resource_groups],
        "output": list(graph.outputs),
        "edge": [f"{edge.artifact} to {edge.target}" for edge in graph.edges],
    }
    for kind, names in kinds.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield f"The {kind} {name!r} is declared {times} times; declare it once."
            if not name:
                yield f"One {kind} has an empty name; give it one."
    for stage in graph.stages:
        for word, named in (("consumes", stage.consumes), ("produces", stage.produces)):
            for name, times in Counter(named).items():
                if times > 1:
                    yield f"Stage {stage.id!r} {word} {name!r} {times} times; name it once."
    if not graph.stages:
        yield "The graph has no stage; declare at least one."
    if not graph.outputs:
        yield "The graph has no output; name the artifacts that leave it."


def _bad_numbers(graph: Graph) -> Iterator[str]:
    numbers = [("output_capacity of the graph", graph.output_capacity)]
    numbers += [
        (f"in_flight of group {one.name!r}", one.in_flight) for one in graph.resource_groups
    ]
    for stage in graph.stages:
        numbers.append((f"in_flight of stage {stage.id!r}", stage.in_flight))
        numbers.append(
            (f"in_flight_per_session of stage {stage.id!r}", stage.in_flight_per_session)
        )
    numbers += [(f"capacity of the edge {_named(edge)}", edge.capacity) for edge in graph.edges]
    for what, number in numbers:
        if number < 1:
            yield f"The {what} is {number}; it must be at least 1."


def _unknown_names(graph: Graph) -> Iterator[str]:
    artifacts = {one.name for one in graph.artifacts}
    stages = {one.id for one in graph.stages}
    used = [(f"Stage {s.id!r}", name) for s in graph.stages for name in s.consumes + s.produces]
    used += [(f"The edge {_named(edge)}", edge.artifact) for edge in graph.edges]
    used += [("The list of outputs", name) for name in graph.outputs]
    if graph.anchor is not None:
        used.append(("The anchor", graph.anchor))
    for who, name in used:
        if name not in artifacts:
            yield f"{who} names the artifact {name!r}, which isn't declared."
    for edge in graph.edges:
        for end in (edge.source, edge.target):
            if end is not None and end not in stages:
                yield f"The edge {_named(edge)} names the stage {end!r}, which isn't declared."
    groups = {one.name for one in graph.resource_groups}
    for stage in graph.stages:
        if stage.resource_group is not None and stage.resource_group not in groups:
            yield (
                f"Stage {stage.id!r} is in the resource group {stage.resource_group!r}, "
                "which isn't declared."
            )


def _producers(graph: Graph) -> Iterator[str]:
    makers: dict[str, list[str]] = {one.name: [] for one in graph.artifacts}
    for stage in graph.stages:
        for name in stage.produces:
            makers[name].append(stage.id)
    for name, ids in makers.items():
        if len(ids) > 1:
            yield f"Artifact {name!r} is produced by {' and '.join(ids)}; only one stage may."
    from_outside = {edge.artifact for edge in graph.edges if edge.source is None}
    for name in sorted(from_outside):
        if makers[name]:
            yield (
                f"Artifact {name!r} comes from outside and from stage {makers[name][0]!r}; "
                "it must have one source."
            )
    for name in graph.outputs:
        if not makers[name]:
            yield f"Output {name!r} is produced by no stage, so it can never leave."
    if graph.anchor is not None and graph.anchor not in from_outside:
        yield f"The anchor {graph.anchor!r} must be an artifact that comes from outside."


def _edge_ends(graph: Graph) -> Iterator[str]:
    stages = {one.id: one for one in graph.stages}
    for edge in graph.edges:
        if edge.source is not None and edge.artifact not in stages[edge.source].produces:
            yield f"The edge {_named(edge)} starts at a stage that doesn't produce its artifact."
        if edge.artifact not in stages[edge.target].consumes:
            yield f"The edge {_named(edge)} ends at a stage that doesn't consume its artifact."


def _missing_edges(graph: Graph) -> Iterator[str]:
    carried = {(edge.artifact, edge.target) for edge in graph.edges}
    moved = {edge.artifact for edge in graph.edges}
    for stage in graph.stages:
        for name in stage.consumes:
            if (name, stage.id) not in carried:
                yield f"Stage {stage.id!r} consumes {name!r}, but no edge brings it there."
        for name in stage.produces:
            if name not in moved and name not in graph.outputs:
                yield (
                    f"Stage {stage.id!r} produces {name!r}, which no edge takes away "
                    "and which is no output."
                )
    known = moved | {name for stage in graph.stages for name in stage.consumes + stage.produces}
    for artifact in graph.artifacts:
        if artifact.name not in known:
            yield f"Artifact {artifact.name!r} is declared, but nothing uses it."


def _groups(graph: Graph) -> Iterator[str]:
    used = {stage.resource_group for stage in graph.stages}
    for group in graph.resource_groups:
        if group.name not in used:
            yield f"No stage is in the resource group {group.name!r}; name it in one or drop it."


def _latches(graph: Graph) -> Iterator[str]:
    latched = {one.name for one in graph.artifacts if one.latched}
    for edge in graph.edges:
        if edge.artifact in latched and edge.source is not None:
            yield (
                f"Artifact {edge.artifact!r} is latched, so it must come from outside and not "
                f"from stage {edge.source!r}."
            )


def _cycles(graph: Graph) -> Iterator[str]:
    left = {stage.id for stage in graph.stages}
    feeds = {(edge.source, edge.target) for edge in graph.edges if edge.source is not None}
    while free := {one for one in left if not any(t == one and s in left for s, t in feeds)}:
        left -= free
    if not left:
        return
    path = [min(left)]
    while path[-1] not in path[:-1]:  # everything left has a source that is left, too
        path.append(min(s for s, t in feeds if t == path[-1] and s in left and s is not None))
    circle = path[path.index(path[-1]) :]
    yield f"The stages {' → '.join(reversed(circle))} wait for each other in a circle; break it."


def _dead_ends(graph: Graph) -> Iterator[str]:
    useful = {s.id for s in graph.stages if set(s.produces) & set(graph.outputs)}
    grown = True
    while grown:
        more = {e.source for e in graph.edges if e.target in useful and e.source is not None}
        grown = not more <= useful
        useful |= more
    for stage in graph.stages:
        if stage.id not in useful:
            yield f"Nothing that stage {stage.id!r} produces ever reaches an output."


def _parts(graph: Graph) -> Iterator[str]:
    """Stages hang together by the artifacts that they touch."""
    touches = {stage.id: {*stage.consumes, *stage.produces} for stage in graph.stages}
    first = graph.stages[0].id
    reached, grown = {first}, True
    while grown:
        near = {name for stage in reached for name in touches[stage]}
        more = {stage for stage, names in touches.items() if names & near}
        grown = not more <= reached
        reached |= more
    apart = [stage.id for stage in graph.stages if stage.id not in reached]
    if apart:
        yield (
            f"The graph falls apart: {', '.join(map(repr, apart))} shares nothing with {first!r}; "
            "make two graphs of it."
        )


def _named(edge: Edge) -> str:
    return f"{edge.artifact} ({edge.source or 'outside'} → {edge.target})"
