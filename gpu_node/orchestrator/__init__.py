"""Stages of a service as a graph, for service files that want them; start with `pipeline`."""

from gpu_node.orchestrator.actors import Call, LocalActor
from gpu_node.orchestrator.child import ChildStage
from gpu_node.orchestrator.graph import Artifact, Edge, Graph, Ordering, ResourceGroup, Stage
from gpu_node.orchestrator.parallel import ParallelActor
from gpu_node.orchestrator.pipeline import Pipeline
from gpu_node.orchestrator.session import Output

__all__ = [
    "Artifact",
    "Call",
    "ChildStage",
    "Edge",
    "Graph",
    "LocalActor",
    "Ordering",
    "Output",
    "ParallelActor",
    "Pipeline",
    "ResourceGroup",
    "Stage",
]
