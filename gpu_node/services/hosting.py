"""What does the rest of a node need of the place where its service lives?

Two places fulfil it: `gpu_node.services.host.ServiceHost`, threads in this process, and
`gpu_node.worker.host.ChildHost`, a child that runs the former. Every method is called on the
agent's loop; what the service raises arrives as `ServiceFault`, and the death of a child as
`ServiceLost`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, Self

from gpu_node.services.contract import Capacity, Chunk, ServiceTraits


class Chunks(Protocol):
    """One session's chunks; at most one is made and not yet taken."""

    ended: asyncio.Event
    """Nothing of ``pull_chunks`` runs any more."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Chunk:
        """Return the next chunk; raises `ServiceFault`."""
        ...

    @property
    def last_made_in_s(self) -> float:
        """How long the service took for the chunk that was taken last."""
        ...

    @property
    def last_began_s(self) -> float:
        """When it began with that chunk, by `time.monotonic`: what came later isn't in it."""
        ...

    def needed_in(self, seconds: float) -> None:
        """The player will need the next chunk in *seconds*."""
        ...

    async def stop(self, timeout_s: float) -> None:
        """End them and wait for it, at most *timeout_s*."""
        ...


class Host(Protocol):
    """One service, loaded or about to be."""

    @property
    def name(self) -> str:
        """File name of the service, for people."""
        ...

    @property
    def traits(self) -> ServiceTraits:
        """What the service declares of itself."""
        ...

    async def start(self) -> None:
        """Bring the service up; raises `ServiceLoadFailed`."""
        ...

    async def lost(self) -> str:
        """Return why, once the service is gone with all its sessions."""
        ...

    async def capacity(self, wanted: int | None) -> Capacity:
        """Return how many sessions the service keeps, at most *wanted*."""
        ...

    async def create_session(self, config: dict[str, Any]) -> str:
        """Make a pipeline session and return its id; raises `InvalidConfig` for a bad config."""
        ...

    async def push(self, pipeline_session_id: str, chunk: Chunk) -> None:
        """Hand one control message to the service; a late one goes nowhere."""
        ...

    def chunks(self, pipeline_session_id: str) -> Chunks:
        """Return the session's chunks, once per session; the service begins at once."""
        ...

    async def close_session(self, pipeline_session_id: str) -> None:
        """Return when nothing is left of the pipeline session."""
        ...

    async def runtime_metrics(self, pipeline_session_id: str | None = None) -> dict[str, Any]:
        """Return what the service measures, of one session with its id."""
        ...

    async def track_frames(self, pipeline_session_id: str) -> bool:
        """Whether the service wants `report_frames` for this session."""
        ...

    async def report_frames(
        self,
        pipeline_session_id: str,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_s: float,
    ) -> bool:
        """Tell the service what became of its frames; whether it took notice."""
        ...

    async def aclose(self) -> None:
        """Stop the service; bounded."""
        ...
