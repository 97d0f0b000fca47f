"""What does the pipeline hold of one session, and which stage could go on with it?

Pure: no clock, no thread. Only the core calls it. The phases:

    running ──> finished ──> closing ──> gone
       │  └──────────────────────^  ^
       └──> failed ─────────────────┘

*finished* means that all outputs up to the declared end have been taken. A session in *closing*
holds no artifact any more; it is gone when nothing of it is in flight and every stage has let go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpu_node.orchestrator.graph import Ordering, Plan, Step
from gpu_node.orchestrator.measures import SessionTimes
from gpu_node.orchestrator.windows import Window
from shared.errors import PipelineMisuse
from shared.states import Table, move

READY, RUNNING, ENDED, ROOM, INPUT = "ready", "running", "ended", "edge_limit", "missing:"
"""Why a stage does or doesn't begin something for a session; `INPUT` is followed by a name."""


class Phase(StrEnum):
    """How far a pipeline session is."""

    RUNNING = "running"
    """Inputs are taken and stages work."""
    FINISHED = "finished"
    """Everything up to the declared end has been taken."""
    FAILED = "failed"
    """A stage raised or died; nothing new begins."""
    CLOSING = "closing"
    """Nobody wants it any more; what is in flight is waited for, then the stages let go."""


PHASE_MOVES: Table[Phase] = {
    Phase.RUNNING: {
        Phase.FINISHED: "the last output was taken",
        Phase.FAILED: "a stage raised or died",
        Phase.CLOSING: "cancelled or closed",
    },
    Phase.FINISHED: {Phase.CLOSING: "closed"},
    Phase.FAILED: {Phase.CLOSING: "closed"},
    Phase.CLOSING: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sequence of one session at one stage."""

    request: int
    """Never used twice in a pipeline: two results of the same work are told apart by it."""
    session: str
    epoch: int
    stage: int
    sequence: int
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What left the graph for one sequence."""

    sequence: int
    values: dict[str, Any]


@dataclass(slots=True)
class Progress:
    """One stage in one session."""

    begun: int = 0
    """All below it were begun."""
    ahead: set[int] = field(default_factory=set)
    """Begun although one below wasn't; only without an order."""
    in_flight: int = 0
    reason: str = ""
    """What `look` said last."""
    let_go: bool = False
    """The stage has freed what it held of the session."""


class PipelineSession:
    """Windows, progress and phase of one session in one epoch."""

    def __init__(self, plan: Plan, session_id: str, epoch: int, times: SessionTimes) -> None:
        self.id, self.epoch, self.times = session_id, epoch, times
        self.phase = Phase.RUNNING
        self.error: BaseException | None = None
        self.cleanup_error: BaseException | None = None
        """The first one; later tries don't hide it."""
        self.end: int | None = None
        self.in_flight: dict[int, Work] = {}
        self.progress = [Progress() for _ in plan.steps]
        self._plan = plan
        self._edges = [Window(edge.capacity) for edge in plan.graph.edges]
        self._wanted = dict.fromkeys(plan.outside, 0)
        """Per artifact from outside: the next sequence."""
        self._latched: dict[str, Any] = {}
        self._latched_s: float | None = None
        """When the anchor was latched; None once an output stands for it."""
        self._anchors_s: dict[int, float] = {}
        self._outputs: dict[int, dict[str, Any]] = {}
        self._taken = self._complete = 0
        """Outputs taken; outputs complete with all before them."""

    @property
    def held(self) -> int:
        """How many artifacts lie here."""
        edges = sum(len(edge.values) for edge in self._edges)
        return edges + sum(map(len, self._outputs.values())) + len(self._latched)

    @property
    def output_waits(self) -> bool:
        """Whether an output can be taken now."""
        return self._taken < self._complete

    def move(self, phase: Phase) -> None:
        """Enter *phase*; raises if that is no legal move."""
        self.phase = move(PHASE_MOVES, self.phase, phase)

    # --- from outside ----------------------------------------------------------------------------

    def push(self, sequence: int, values: Mapping[str, Any], now_s: float) -> bool:
        """Lay all of *values* down, or none of them and return False."""
        for name, value in values.items():
            self._check_pushed(name, sequence, value)
        edges = [(self._edges[at], name) for name in values for at in self._plan.outside[name]]
        if not all(edge.has_room(sequence) for edge, _ in edges):
            return False
        for edge, name in edges:
            edge.put(sequence, values[name])
        for name in values:
            self._wanted[name] = sequence + 1
        if self._plan.graph.anchor in values:
            self._anchors_s[sequence] = now_s
        return True

    def latch(self, name: str, value: object, now_s: float) -> None:
        """Let *value* count from the next beginning on."""
        if name not in self._plan.latched:
            raise PipelineMisuse(f"{name!r} isn't a latched artifact; push it with a sequence.")
        self._check_type(name, value)
        self._latched[name] = value
        if name == self._plan.graph.anchor and self._latched_s is None:
            self._latched_s = now_s

    def declare_end(self, count: int) -> None:
        """Say that sequences 0 … *count* - 1 are all that there will be."""
        if self.end == count:
            return
        if self.end is not None:
            raise PipelineMisuse(f"The end was declared as {self.end} and can't become {count}.")
        begun = max(
            [*self._wanted.values()]
            + [max(one.begun, *(n + 1 for n in one.ahead), 0) for one in self.progress]
        )
        if count <= begun:
            raise PipelineMisuse(
                f"An end of {count} comes too late: {begun} sequences came in before it, and it "
                "must be declared before its last one does."
            )
        self.end = count

    # --- what stages do --------------------------------------------------------------------------

    def look(self, number: int) -> tuple[str, int]:
        """Return why a stage can begin or can't, and with which sequence."""
        step, progress = self._plan.steps[number], self.progress[number]
        if self.phase is not Phase.RUNNING:
            return ENDED, -1
        if progress.in_flight >= step.stage.in_flight_per_session:
            return RUNNING, -1
        if step.stage.ordering is Ordering.STRICT:
            return self._reason(step, progress.begun), progress.begun
        first = ""
        for sequence in self._not_begun(progress):
            reason = self._reason(step, sequence)
            first = first or reason
            if reason == READY or reason in (ENDED, ROOM):
                return (reason, sequence) if reason == READY else (first, -1)
        raise AssertionError("every window ends")

    def begin(self, number: int, sequence: int) -> dict[str, Any]:
        """Take what the stage needs for *sequence* off its edges."""
        step, progress = self._plan.steps[number], self.progress[number]
        inputs = {name: self._edges[at].take(sequence) for at, name in step.takes}
        for name in step.latches:
            inputs[name] = self._latched[name]
            if name == self._plan.graph.anchor and self._latched_s is not None:
                self._anchors_s[sequence], self._latched_s = self._latched_s, None
        progress.ahead.add(sequence)
        while progress.begun in progress.ahead:
            progress.ahead.discard(progress.begun)
            progress.begun += 1
        progress.in_flight += 1
        return inputs

    def give_back(self, work: Work) -> None:
        """Undo the beginning of *work*, right after it."""
        step, progress = self._plan.steps[work.stage], self.progress[work.stage]
        for at, name in step.takes:
            self._edges[at].give_back(work.sequence, work.inputs[name])
        if self._plan.graph.anchor in step.latches and work.sequence in self._anchors_s:
            self._latched_s = self._anchors_s.pop(work.sequence)
        progress.ahead.update(range(work.sequence + 1, progress.begun))
        progress.ahead.discard(work.sequence)
        progress.begun = min(progress.begun, work.sequence)

    def complete(self, work: Work, values: Mapping[str, Any], now_s: float) -> None:
        """Lay down what a stage made; its places were kept since it began."""
        step = self._plan.steps[work.stage]
        for name, edges in step.gives.items():
            for at in edges:
                self._edges[at].put(work.sequence, values[name])
            if name in self._plan.graph.outputs:
                self._outputs.setdefault(work.sequence, {})[name] = values[name]
        if step.makes_output:
            self._count_outputs(now_s)

    def take_output(self) -> Output | None:
        """Return the next output in sequence order, if it is complete."""
        if not self.output_waits:
            return None
        output = Output(sequence=self._taken, values=self._outputs.pop(self._taken))
        self._taken += 1
        if self._taken == self.end:
            self.move(Phase.FINISHED)
        return output

    def discard(self) -> None:
        """Let go of every artifact."""
        for edge in self._edges:
            edge.values.clear()
        self._outputs.clear()
        self._latched.clear()
        self._anchors_s.clear()
        self._taken = self._complete

    # --- inside ----------------------------------------------------------------------------------

    def _reason(self, step: Step, sequence: int) -> str:
        if self.end is not None and sequence >= self.end:
            return ENDED
        if not all(self._edges[at].has_room(sequence) for at in step.room_on):
            return ROOM
        if step.makes_output and sequence >= self._taken + self._plan.graph.output_capacity:
            return ROOM
        for at, name in step.takes:
            if sequence not in self._edges[at].values:
                return INPUT + name
        for name in step.latches:
            if name not in self._latched:
                return INPUT + name
        return READY

    def _not_begun(self, progress: Progress) -> Iterator[int]:
        sequence = progress.begun
        while True:
            if sequence not in progress.ahead:
                yield sequence
            sequence += 1

    def _count_outputs(self, now_s: float) -> None:
        wanted = len(self._plan.graph.outputs)
        while len(self._outputs.get(self._complete, ())) == wanted:
            self.times.on_output(now_s, self._anchors_s.pop(self._complete, None))
            self._complete += 1

    def _check_pushed(self, name: str, sequence: int, value: object) -> None:
        wanted = self._wanted.get(name)
        if wanted is None:
            raise PipelineMisuse(f"{name!r} is no artifact that is pushed from outside.")
        if self.end is not None and sequence >= self.end:
            raise PipelineMisuse(f"{name} {sequence} lies past the declared end {self.end}.")
        if sequence < wanted:
            raise PipelineMisuse(f"{name} {sequence} was pushed before; next is {wanted}.")
        if sequence > wanted:
            raise PipelineMisuse(f"{name} {sequence} leaves a gap; next is {wanted}.")
        self._check_type(name, value)

    def _check_type(self, name: str, value: object) -> None:
        if not isinstance(value, self._plan.types[name]):
            wanted, got = self._plan.types[name].__name__, type(value).__name__
            raise PipelineMisuse(f"Artifact {name!r} must be {wanted}, not {got}.")
