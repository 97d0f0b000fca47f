"""Whose turn is it?

A stage has a line of the sessions for which it could begin something; it takes the first and puts
it last again if there is more to do: round robin over sessions. Stages that share a resource group
wait for it in a line as well: round robin over stages. Nothing is searched: a stage is looked at
when something about it changed, so a turn costs the same with one session and with a thousand.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from gpu_node.orchestrator.graph import Plan
from gpu_node.orchestrator.measures import IdleAccount, StageCounts
from gpu_node.orchestrator.session import INPUT, READY, ROOM, PipelineSession


@dataclass(slots=True)
class Group:
    """A shared resource and the stages that wait for it."""

    name: str
    limit: int
    in_flight: int = 0
    waiting: deque[Line] = field(default_factory=deque)


@dataclass(slots=True)
class Line:
    """One stage's sessions that could go on."""

    number: int
    limit: int
    group: Group | None
    idle: IdleAccount
    causes: tuple[str, ...]
    """What it may wait for, the more telling first."""
    ready: OrderedDict[str, PipelineSession] = field(default_factory=OrderedDict)
    reasons: Counter[str] = field(default_factory=Counter)
    """How many sessions stand how with it."""
    counts: StageCounts = field(default_factory=StageCounts)
    in_flight: int = 0
    listed: bool = False
    """It is among the stages to be looked at."""
    parked: bool = False
    """It waits for its group."""
    busy: bool = False
    """Its actor had no room."""
    dead: bool = False

    def waits_for(self) -> str | None:
        """Return what the stage is idle for; None while it works."""
        if self.in_flight:
            return None
        if self.ready:
            return "resource_group" if self.parked else "actor_busy" if self.busy else "its_turn"
        return next((cause for cause in self.causes if self.reasons[cause]), "no_session")


class Turns:
    """The lines of all stages."""

    def __init__(self, plan: Plan, now_s: float) -> None:
        groups = {one.name: Group(one.name, one.in_flight) for one in plan.graph.resource_groups}
        self.lines = tuple(
            Line(
                number=number,
                limit=step.stage.in_flight,
                group=groups[step.stage.resource_group] if step.stage.resource_group else None,
                idle=IdleAccount(now_s),
                causes=(
                    ROOM,
                    *(INPUT + name for name in step.latches),
                    *(INPUT + name for _, name in step.takes),
                ),
            )
            for number, step in enumerate(plan.steps)
        )
        self._to_look_at: deque[Line] = deque()

    def place(self, number: int, session: PipelineSession, reason: str, now_s: float) -> None:
        """Note how *session* stands with a stage now."""
        line, progress = self.lines[number], session.progress[number]
        if progress.reason != reason:
            line.reasons[reason] += 1
            if reason == READY:
                session.times.busy.begin(now_s)
            self._leave(line, session, now_s)
            progress.reason = reason
        if reason == READY and not line.dead:
            line.ready.setdefault(session.id, session)
            self._list(line)
        else:
            line.ready.pop(session.id, None)
        self._account(line, now_s)

    def remove(self, session: PipelineSession, now_s: float) -> None:
        """Forget how *session* stood with each stage."""
        for line, progress in zip(self.lines, session.progress, strict=True):
            line.ready.pop(session.id, None)
            self._leave(line, session, now_s)
            progress.reason = ""
            self._account(line, now_s)

    def next(self) -> tuple[Line, PipelineSession] | None:
        """Return a stage that may begin and the session whose turn it is; its place is used up."""
        while self._to_look_at:
            line = self._to_look_at.popleft()
            line.listed = False
            group = line.group
            if line.busy or line.dead or line.in_flight >= line.limit or not line.ready:
                self._wake(group)  # in case it was woken for room that it can't use
                continue
            if group is not None and group.in_flight >= group.limit:
                line.parked = True
                group.waiting.append(line)
                continue
            _, session = line.ready.popitem(last=False)
            return line, session
        return None

    def began(self, line: Line, now_s: float) -> None:
        """The stage began something."""
        line.in_flight += 1
        line.counts.begun += 1
        if line.group is not None:
            line.group.in_flight += 1
        self._list(line)
        self._account(line, now_s)

    def ended(self, line: Line, now_s: float) -> None:
        """Something of the stage is no longer in flight."""
        line.in_flight -= 1
        group = line.group
        if group is not None:
            group.in_flight -= 1
        self._wake(group)
        self._list(line)
        self._account(line, now_s)

    def free(self, line: Line, now_s: float) -> None:
        """The stage's actor has room again."""
        line.busy = False
        self._list(line)
        self._account(line, now_s)

    def _wake(self, group: Group | None) -> None:
        """Let the stage that has waited longest for room in *group* look whether it can use it."""
        if group is not None and group.waiting and group.in_flight < group.limit:
            line = group.waiting.popleft()
            line.parked = False
            line.listed = True
            self._to_look_at.append(line)

    def _list(self, line: Line) -> None:
        if line.ready and not (line.listed or line.parked):
            line.listed = True
            self._to_look_at.append(line)

    def _leave(self, line: Line, session: PipelineSession, now_s: float) -> None:
        reason = session.progress[line.number].reason
        if reason == READY:
            session.times.busy.end(now_s)
        if reason:
            line.reasons[reason] -= 1
            if not line.reasons[reason]:
                del line.reasons[reason]

    def _account(self, line: Line, now_s: float) -> None:
        line.idle.becomes(line.waits_for(), now_s)
