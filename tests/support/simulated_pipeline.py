"""How does a pipeline run on a clock that a test turns?

The core with actors that take the time that a test says and do no work: a stage's values tell
where they came from. Nothing here is a thread, so every order of events can be played.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

from gpu_node.orchestrator.core import Core, News
from gpu_node.orchestrator.graph import Graph, plan
from gpu_node.orchestrator.session import Output, Work

Duration = Callable[[Work], float]


class SimulatedPipeline:
    """A core, a clock and work that is through when its time has come."""

    def __init__(
        self,
        graph: Graph,
        takes_s: Duration = lambda work: 1.0,
        refuses: Callable[[Work], bool] = lambda work: False,
    ) -> None:
        self.now_s = 0.0
        self.plan = plan(graph)
        self.core = Core(self.plan, 0.0)
        self.begun: list[Work] = []
        self.running: dict[int, Work] = {}
        self.news: list[tuple[News, str]] = []
        self._takes_s, self._refuses = takes_s, refuses
        self._due: list[tuple[float, int]] = []

    def stage(self, work: Work) -> str:
        """The name of the stage that does *work*."""
        return self.plan.steps[work.stage].stage.id

    def pump(self) -> None:
        """Begin everything that can begin."""
        while (work := self.core.next_work(self.now_s)) is not None:
            if self._refuses(work):
                self.core.restore(work, self.now_s)
                continue
            self.begun.append(work)
            self.running[work.request] = work
            heapq.heappush(self._due, (self.now_s + self._takes_s(work), work.request))
        self.news.extend(self.core.news)
        self.core.news.clear()

    def open(self, session: str, chunk_media_s: float = 0.0) -> None:
        self.core.open(session, self.now_s, chunk_media_s)
        self.pump()

    def push(self, session: str, sequence: int, **values: Any) -> bool:
        pushed = self.core.push(session, sequence, values, self.now_s)
        self.pump()
        return pushed

    def latch(self, session: str, name: str, value: object) -> None:
        self.core.latch(session, name, value, self.now_s)
        self.pump()

    def take(self, session: str) -> Output | None:
        output = self.core.take_output(session, self.now_s)
        self.pump()
        return output

    def complete(self, work: Work) -> None:
        """Let *work* be through with values that tell their descent."""
        self.running.pop(work.request, None)
        self.core.completed(work, self.values(work), self.now_s)
        self.pump()

    def free_actors(self) -> None:
        """Let every actor that refused have room again."""
        for line in self.core.turns.lines:
            if line.busy:
                self.core.actor_free(line.number, self.now_s)
        self.pump()

    def fail(self, work: Work, error: BaseException) -> None:
        self.running.pop(work.request, None)
        self.core.failed(work, error, self.now_s)
        self.pump()

    def values(self, work: Work) -> dict[str, tuple[Any, ...]]:
        """Per product: who made it and from what."""
        mark = (self.stage(work), work.session, work.sequence, tuple(sorted(work.inputs.items())))
        return {name: (name, *mark) for name in self.plan.steps[work.stage].stage.produces}

    def run(self, seconds: float) -> None:
        """Let time pass; what is through meanwhile makes room for more."""
        until_s = self.now_s + seconds
        while self._due and self._due[0][0] <= until_s:
            self.now_s, request = heapq.heappop(self._due)
            if request in self.running:
                self.complete(self.running[request])
        self.now_s = until_s

    def close(self, session: str) -> None:
        """Stop a session; when it is quiet, let every stage let go and forget it."""
        self.core.stop(session, self.now_s)
        self.pump()

    def clean(self, session: str) -> None:
        for stage in self.core.uncleaned(session):
            self.core.cleaned(session, stage)
        self.core.forget(session)

    def begun_by(self, stage: str) -> Counter[str]:
        """How often *stage* began something, per session."""
        return Counter(work.session for work in self.begun if self.stage(work) == stage)
