"""How does a test in a browser get a whole fleet, without processes, rooms or models?

Played nodes on a real registry, on an event loop of their own: they beat as real ones do, and do
what the test says. The browser's side stays synchronous.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from shared.gpus import Gpu, GpuFacts, gpus_text
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import NodeState, Reason
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL

T = TypeVar("T")
_BEAT_EVERY_S = 0.5
_WITHIN_S = 60.0


def gpus(used_gib: float, total_gib: int = 80, count: int = 1, busy: int = 64) -> str:
    """Return what a node tells of GPUs that are alike."""
    return gpus_text(
        GpuFacts(
            gpus=tuple(
                Gpu(
                    number=number,
                    uuid=f"GPU-{number}",
                    name="NVIDIA H100 80GB HBM3",
                    used_mib=round(used_gib * 1024),
                    total_mib=total_gib * 1024,
                    busy_percent=busy,
                    temperature_c=61,
                )
                for number in range(count)
            )
        )
    )


class PlayedFleet:
    """Nodes that live until the block of `played_fleet` is left."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.registry = Registry.connect(redis_url)
        self.nodes: dict[str, PlayedNode] = {}
        self._beating: asyncio.Task[None] | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Do something of the fleet's and wait for its end."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_WITHIN_S)

    def begin(self, node_id: str, *, capacity: int, told: str = "", **options: Any) -> PlayedNode:
        """Begin a node's life; it beats from then on."""
        return self.run(self._begin(node_id, capacity, told, options))

    def open(self, count: int, who: str = "somebody") -> list[str]:
        """Put sessions into the line."""
        return self.run(self._open(count, who))

    def play(self, *, frames: bool = True) -> list[str]:
        """Let all nodes play what they were given; returns who plays, in order of the nodes."""
        return self.run(self._play(frames))

    def end(self, node_id: str, session_id: str, reason: Reason, error: str | None = None) -> None:
        """Let a node end a session."""
        self.run(self.nodes[node_id].end(session_id, reason, error))

    def silence(self) -> None:
        """Let no node beat any more."""
        if self._beating is not None:
            self._loop.call_soon_threadsafe(self._beating.cancel)

    def close(self) -> None:
        """End the fleet and its loop."""
        self.silence()
        for node in self.nodes.values():
            node.link.close()
        self.run(self.registry.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _begin(
        self, node_id: str, capacity: int, told: str, options: dict[str, Any]
    ) -> PlayedNode:
        node = await PlayedNode.begin(
            self.registry, self._redis_url, node_id=node_id, capacity=capacity, **options
        )
        node.gpus = told
        self.nodes[node_id] = node
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        return node

    async def _beat(self) -> None:
        while True:
            for node in list(self.nodes.values()):
                await node.beat()
            await asyncio.sleep(_BEAT_EVERY_S)

    async def _open(self, count: int, who: str) -> list[str]:
        names = [new_session_id(POOL) for _ in range(count)]
        for number, name in enumerate(names):
            request = OpenRequest(
                pool=POOL,
                session_id=name,
                request=SessionRequest(identity=f"{who}-{number + 1}"),
                limits=SessionLimits(queued_s=3600, controller_s=3600, room_empty_s=3600),
                queue_size=1000,
            )
            await self.registry.open(request)
        return names

    async def _play(self, frames: bool) -> list[str]:
        played: list[str] = []
        for node in self.nodes.values():
            if node.state is NodeState.LOADING:
                continue
            await node.beat()
            for session_id in list(node.residents):
                if node.residents[session_id].presence is None:
                    await node.play(session_id)
                    if frames:
                        await self.registry.note_first_frame(node._owner(session_id))
                played.append(session_id)
        return played


@contextlib.contextmanager
def played_fleet(redis_url: str) -> Iterator[PlayedFleet]:
    """Run an empty fleet for the length of the block."""
    fleet = PlayedFleet(redis_url)
    try:
        yield fleet
    finally:
        fleet.close()
