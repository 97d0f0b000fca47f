"""Which stages do the tests of pipelines run?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gpu_node.orchestrator import Call, Graph, LocalActor, Pipeline
from gpu_node.orchestrator.actors import Actor
from tests.support.wait import scaled_s


class Code:
    """A stage that remembers what it was asked, and does what a test plants."""

    def __init__(self, *products: str, run: Callable[[Call], object] | None = None) -> None:
        self.calls: list[tuple[str, int]] = []
        self.closed: list[str] = []
        self.shut_down = False
        self.threads: set[str] = set()
        self.close_fails = 0
        self._products, self._run = products, run

    def run(self, call: Call) -> Mapping[str, Any]:
        self.threads.add(threading.current_thread().name)
        self.calls.append((call.session, call.sequence))
        made = self._run(call) if self._run else (call.session, call.sequence)
        return dict.fromkeys(self._products, made)

    def close(self, session: str) -> None:
        if self.close_fails:
            self.close_fails -= 1
            raise RuntimeError(f"can't close for the {self.close_fails}th time")
        self.closed.append(session)

    def shutdown(self) -> None:
        self.shut_down = True


class Gate:
    """Holds a stage's thread until the test lets it go on."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, call: Call) -> object:
        self.entered.set()
        assert self.open.wait(scaled_s(20))
        return call.sequence


@asynccontextmanager
async def running(
    graph: Graph, codes: Mapping[str, Any], step_limit_s: float | None = None
) -> AsyncIterator[Pipeline]:
    """A pipeline with a thread per stage, stopped at the end."""
    actors: dict[str, Actor] = {
        name: code if hasattr(code, "submit") else LocalActor(code) for name, code in codes.items()
    }
    pipeline = Pipeline(graph, actors, step_limit_s=step_limit_s)
    pipeline.start()
    async with asyncio.timeout(scaled_s(30)):
        yield pipeline
        await pipeline.aclose()
