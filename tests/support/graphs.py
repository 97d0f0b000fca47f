"""Which graphs do the tests of the orchestrator use?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gpu_node.orchestrator.graph import Artifact, Edge, Graph, Ordering, ResourceGroup, Stage


def world_graph(**changes: Any) -> Graph:
    """Encode, denoise, decode, as video worlds have it; the first two runs share a GPU."""
    graph = Graph(
        artifacts=tuple(
            Artifact(name=name) for name in ("prompt", "condition", "control", "latent", "frames")
        ),
        stages=(
            Stage(id="encode", consumes=("prompt",), produces=("condition",)),
            Stage(id="denoise", consumes=("condition", "control"), produces=("latent",)),
            Stage(id="decode", consumes=("latent",), produces=("frames",)),
        ),
        edges=(
            Edge(artifact="prompt", target="encode", capacity=2),
            Edge(artifact="condition", source="encode", target="denoise", capacity=2),
            Edge(artifact="control", target="denoise", capacity=2),
            Edge(artifact="latent", source="denoise", target="decode", capacity=2),
        ),
        outputs=("frames",),
        output_capacity=2,
        anchor="control",
    )
    return replace(graph, **changes)


def one_stage(**changes: Any) -> Graph:
    """A single stage that turns ``a`` into ``b``."""
    stage: dict[str, Any] = {"id": "only", "consumes": ("a",), "produces": ("b",)}
    return Graph(
        artifacts=(Artifact(name="a"), Artifact(name="b")),
        stages=(Stage(**{**stage, **changes}),),
        edges=(Edge(artifact="a", target="only", capacity=4),),
        outputs=("b",),
        output_capacity=4,
    )


@st.composite
def sound_graphs(draw: st.DrawFn) -> Graph:
    """Any graph of one to four stages that the checks accept, with limits from tight to wide."""
    count = draw(st.integers(1, 4))
    consumes, edges = draw(_ways(count))
    taken = {edge.source for edge in edges}
    ends = {n for n in range(count) if f"s{n}" not in taken}
    extra = draw(st.sets(st.integers(0, count - 1), max_size=1))
    groups = draw(st.integers(0, 2))
    stages = tuple(
        Stage(
            id=f"s{n}",
            consumes=tuple(consumes[n]),
            produces=(f"out{n}",),
            ordering=draw(st.sampled_from(Ordering)),
            in_flight_per_session=draw(_SMALL),
            in_flight=draw(_SMALL),
            resource_group=f"g{draw(st.integers(0, groups - 1))}" if groups else None,
        )
        for n in range(count)
    )
    used = sorted({stage.resource_group for stage in stages if stage.resource_group})
    artifacts = dict.fromkeys([edge.artifact for edge in edges] + [f"out{n}" for n in range(count)])
    return Graph(
        artifacts=tuple(Artifact(name=name) for name in artifacts),
        stages=draw(st.permutations(stages).map(tuple)),
        edges=tuple(edges),
        outputs=tuple(f"out{n}" for n in sorted(ends | extra)),
        output_capacity=draw(_SMALL),
        resource_groups=tuple(
            ResourceGroup(name=name, in_flight=draw(st.integers(1, 2))) for name in used
        ),
        anchor="in0",
    )


_SMALL = st.integers(1, 3)


@st.composite
def _ways(draw: st.DrawFn, count: int) -> tuple[dict[int, list[str]], list[Edge]]:
    """What each stage consumes, from one or two before it and perhaps from outside."""
    edges = [Edge(artifact="in0", target="s0", capacity=2)]
    consumes: dict[int, list[str]] = {n: [] for n in range(count)}
    consumes[0] = ["in0"]
    for target in range(1, count):
        sources = draw(st.sets(st.integers(0, target - 1), min_size=1, max_size=2))
        for source in sorted(sources):
            consumes[target].append(f"out{source}")
            way = {"artifact": f"out{source}", "source": f"s{source}", "target": f"s{target}"}
            edges.append(Edge(**way, capacity=draw(_SMALL)))
        if draw(st.booleans()):
            consumes[target].append(f"in{target}")
            edges.append(Edge(artifact=f"in{target}", target=f"s{target}", capacity=draw(_SMALL)))
    return consumes, edges
