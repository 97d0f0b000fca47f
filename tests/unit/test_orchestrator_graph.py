"""Is a graph that can't run told so, in one sentence per fault, before anything starts?"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from gpu_node.orchestrator.graph import Artifact, Edge, Graph, ResourceGroup, Stage, plan
from shared.errors import GraphFault, ServiceLoadFailed
from tests.support.graphs import sound_graphs, world_graph


def with_stage(number: int, **changes: Any) -> Graph:
    """The world's graph with one stage changed."""
    graph = world_graph()
    stages = list(graph.stages)
    stages[number] = replace(stages[number], **changes)
    return replace(graph, stages=tuple(stages))


def with_edge(number: int, **changes: Any) -> Graph:
    """The world's graph with one edge changed."""
    graph = world_graph()
    edges = list(graph.edges)
    edges[number] = replace(edges[number], **changes)
    return replace(graph, edges=tuple(edges))


def more(**added: tuple[Any, ...]) -> Graph:
    """The world's graph with something added."""
    graph = world_graph()
    return replace(graph, **{key: getattr(graph, key) + new for key, new in added.items()})


BROKEN = {
    "no stage": (
        Graph(artifacts=(), stages=(), edges=(), outputs=("x",)),
        "The graph has no stage; declare at least one.",
    ),
    "no output": (
        world_graph(outputs=()),
        "The graph has no output; name the artifacts that leave it.",
    ),
    "artifact twice": (
        more(artifacts=(Artifact(name="latent"),)),
        "The artifact 'latent' is declared 2 times; declare it once.",
    ),
    "stage twice": (
        more(stages=(Stage(id="decode"),)),
        "The stage 'decode' is declared 2 times; declare it once.",
    ),
    "edge twice": (
        more(edges=(Edge(artifact="latent", target="decode"),)),
        "The edge 'latent to decode' is declared 2 times; declare it once.",
    ),
    "group twice": (
        more(resource_groups=(ResourceGroup(name="gpu"), ResourceGroup(name="gpu"))),
        "The resource group 'gpu' is declared 2 times; declare it once.",
    ),
    "consumed twice": (
        with_stage(2, consumes=("latent", "latent")),
        "Stage 'decode' consumes 'latent' 2 times; name it once.",
    ),
    "empty name": (
        more(artifacts=(Artifact(name=""),)),
        "One artifact has an empty name; give it one.",
    ),
    "no room": (
        with_edge(1, capacity=0),
        "The capacity of the edge condition (encode → denoise) is 0; it must be at least 1.",
    ),
    "no flight": (
        with_stage(1, in_flight=0),
        "The in_flight of stage 'denoise' is 0; it must be at least 1.",
    ),
    "unknown artifact": (
        with_stage(2, consumes=("latents",)),
        "Stage 'decode' names the artifact 'latents', which isn't declared.",
    ),
    "unknown stage": (
        with_edge(3, target="decoder"),
        "The edge latent (denoise → decoder) names the stage 'decoder', which isn't declared.",
    ),
    "unknown group": (
        with_stage(1, resource_group="gpu"),
        "Stage 'denoise' is in the resource group 'gpu', which isn't declared.",
    ),
    "unused group": (
        more(resource_groups=(ResourceGroup(name="gpu"),)),
        "No stage is in the resource group 'gpu'; name it in one or drop it.",
    ),
    "unused artifact": (
        more(artifacts=(Artifact(name="depth"),)),
        "Artifact 'depth' is declared, but nothing uses it.",
    ),
    "two producers": (
        with_stage(2, produces=("frames", "condition")),
        "Artifact 'condition' is produced by encode and decode; only one stage may.",
    ),
    "produced and from outside": (
        with_edge(3, source=None),
        "Artifact 'latent' comes from outside and from stage 'denoise'; it must have one source.",
    ),
    "edge from the wrong stage": (
        with_edge(3, source="encode"),
        "The edge latent (encode → decode) starts at a stage that doesn't produce its artifact.",
    ),
    "edge to the wrong stage": (
        more(edges=(Edge(artifact="control", target="decode"),)),
        "The edge control (outside → decode) ends at a stage that doesn't consume its artifact.",
    ),
    "no edge": (
        with_stage(2, consumes=("latent", "control")),
        "Stage 'decode' consumes 'control', but no edge brings it there.",
    ),
    "nobody takes it": (
        replace(
            with_stage(2, produces=("frames", "depth")),
            artifacts=(*world_graph().artifacts, Artifact(name="depth")),
        ),
        "Stage 'decode' produces 'depth', which no edge takes away and which is no output.",
    ),
    "unreachable output": (
        world_graph(outputs=("frames", "prompt")),
        "Output 'prompt' is produced by no stage, so it can never leave.",
    ),
    "anchor inside": (
        world_graph(anchor="latent"),
        "The anchor 'latent' must be an artifact that comes from outside.",
    ),
    "latched inside": (
        replace(
            world_graph(),
            artifacts=tuple(
                replace(one, latched=one.name == "latent") for one in world_graph().artifacts
            ),
        ),
        "Artifact 'latent' is latched, so it must come from outside and not from stage 'denoise'.",
    ),
}


@pytest.mark.parametrize(("graph", "sentence"), BROKEN.values(), ids=BROKEN.keys())
def test_each_fault_is_told_in_a_sentence_of_its_own(graph: Graph, sentence: str) -> None:
    """It names what is wrong and where."""
    with pytest.raises(GraphFault) as caught:
        plan(graph)
    assert sentence in caught.value.faults


def test_a_circle_is_named_stage_by_stage() -> None:
    """In the direction in which things flow."""
    graph = world_graph(
        artifacts=(*world_graph().artifacts, Artifact(name="back")),
        stages=(
            Stage(id="encode", consumes=("prompt", "back"), produces=("condition",)),
            world_graph().stages[1],
            Stage(id="decode", consumes=("latent",), produces=("frames", "back")),
        ),
        edges=(*world_graph().edges, Edge(artifact="back", source="decode", target="encode")),
    )
    with pytest.raises(GraphFault, match="wait for each other in a circle") as caught:
        plan(graph)
    (sentence,) = caught.value.faults
    circle = sentence.split("The stages ")[1].split(" wait")[0].split(" → ")
    assert circle[0] == circle[-1]
    pairs = {("encode", "denoise"), ("denoise", "decode"), ("decode", "encode")}
    assert set(itertools.pairwise(circle)) == pairs


def test_a_stage_whose_work_leads_nowhere_is_found() -> None:
    """Two stages that only feed each other's successor that nobody reads."""
    graph = world_graph(
        artifacts=(*world_graph().artifacts, Artifact(name="depth"), Artifact(name="mood")),
        stages=(
            *world_graph().stages[:2],
            Stage(id="decode", consumes=("latent",), produces=("frames", "depth")),
            Stage(id="feel", consumes=("depth",), produces=()),
        ),
        edges=(*world_graph().edges, Edge(artifact="depth", source="decode", target="feel")),
    )
    graph = replace(graph, artifacts=tuple(one for one in graph.artifacts if one.name != "mood"))
    with pytest.raises(GraphFault, match="Nothing that stage 'feel' produces ever reaches"):
        plan(graph)


def test_a_graph_in_two_parts_is_found() -> None:
    """They would share nothing but a name."""
    graph = more(
        artifacts=(Artifact(name="text"), Artifact(name="voice")),
        stages=(Stage(id="speak", consumes=("text",), produces=("voice",)),),
        edges=(Edge(artifact="text", target="speak"),),
        outputs=("voice",),
    )
    with pytest.raises(GraphFault, match="falls apart: 'speak' shares nothing with 'encode'"):
        plan(graph)


def test_several_faults_are_told_together() -> None:
    """Whoever writes a graph mends it in one go."""
    with pytest.raises(ServiceLoadFailed) as caught:
        plan(with_stage(1, in_flight=0, in_flight_per_session=0))
    assert isinstance(caught.value, GraphFault)
    assert len(caught.value.faults) == 2


@given(graph=sound_graphs())
def test_a_sound_graph_is_ordered_so_that_sources_come_first(graph: Graph) -> None:
    """Whatever order its stages were written in."""
    made = plan(graph)
    number = {step.stage.id: at for at, step in enumerate(made.steps)}
    assert len(number) == len(graph.stages)
    assert all(e.source is None or number[e.source] < number[e.target] for e in graph.edges)
