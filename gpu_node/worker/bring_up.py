"""What may the node ask of the service in its child?

The methods of the host, by name, and nothing else; ``start`` loads the service file first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_node.services.contract import Capacity
from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import load
from gpu_node.services.stream import ChunkStream
from shared.errors import ServiceFault
from shared.lifecycle import in_thread

_METHODS = frozenset(
    (
        "aclose",
        "capacity",
        "close_session",
        "create_session",
        "push",
        "report_frames",
        "runtime_metrics",
        "track_frames",
    )
)


class ChildService:
    """The service of a child, and its host once it's loaded."""

    def __init__(self) -> None:
        self._host: ServiceHost | None = None

    async def call(self, method: str, arguments: Mapping[str, Any]) -> object:
        """Do what the node asks; raises what the host raises."""
        if method == "start":
            return await self._start(**arguments)
        if method not in _METHODS:
            raise ServiceFault(f"The child knows no {method}().")
        if self._host is None:
            return None
        answer: object = await getattr(self._host, method)(**arguments)
        return dataclasses.asdict(answer) if isinstance(answer, Capacity) else answer

    def chunks(self, pipeline_session_id: str) -> ChunkStream:
        """Begin with a session's chunks."""
        if self._host is None:
            raise RuntimeError("chunks were asked for before the service was started")
        return self._host.chunks(pipeline_session_id)

    def touch(self, on_turn: Callable[[], None]) -> None:
        """Any thread: have *on_turn* called by the service loop, at once if there is none."""
        if self._host is None:
            on_turn()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the child is about to end
            self._host.touch(on_turn)

    async def _start(
        self, *, path: str, gpu_num: int, gpu_ids: list[str] | None, memory_limit_bytes: int
    ) -> dict[str, object]:
        if memory_limit_bytes:
            # What is written to and not shared; an address space limit would stop CUDA.
            resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
        loaded = await in_thread(
            "service-load", lambda: load(Path(path), gpu_num=gpu_num, gpu_ids=gpu_ids)
        )
        host = self._host = ServiceHost(loaded)
        await host.start()
        return dataclasses.asdict(host.traits)
