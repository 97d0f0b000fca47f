"""How does a stage run on several members at once?

A `ParallelActor` owns its members alone; each is code with a thread of its own, which may stand for
a process (`child.ChildStage`) or for one card of several. There are two ways:

- *spread*: every step runs on one member. A stage that keeps an order keeps state as well, so all
  of a session stays with the member that had it first; without an order the least loaded takes it.
- *together*: every step runs on all members, as a model that is cut over several cards needs it.
  It is through when all are; the first member's products count, and a failure of one is a failure.

If one member dies the actor is dead: half a model, or half of the sessions, is no service.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_node.orchestrator.actors import LetGo, LocalActor, Reports, StageCode
from gpu_node.orchestrator.graph import Ordering, Stage
from gpu_node.orchestrator.session import Work
from shared.errors import GraphFault, GreenroomError


@dataclass(slots=True)
class _Gathering:
    """Answers of members to one question."""

    missing: int
    values: object = None
    error: BaseException | None = None


class ParallelActor:
    """Several members that run one stage."""

    def __init__(
        self, codes: Sequence[StageCode], *, together: bool = False, mailbox: int = 2
    ) -> None:
        if not codes:
            raise GraphFault(faults=("A parallel actor needs at least one member.",))
        self.codes = tuple(codes)
        self._together = together
        self._members = [LocalActor(code, mailbox=mailbox) for code in codes]
        self._keeps_order = True
        self._home: dict[str, int] = {}
        """Per session its member. Written by the pipeline's thread; entries are dropped by a
        member's thread when it has let go, which a dict does in one step."""
        self._gathered: dict[int, _Gathering] = {}
        self._lock = threading.Lock()
        """Guards `_gathered`, which members' threads share."""
        self._reports: Reports | None = None

    def start(self, stage: Stage, reports: Reports) -> None:
        """Start all members."""
        self._reports = reports
        self._keeps_order = stage.ordering is Ordering.STRICT
        for number, member in enumerate(self._members):
            member.start(stage, self._reports_of(number, reports))

    def submit(self, work: Work) -> bool:
        """Hand *work* to its member, or to all of them if all have room."""
        if not self._together:
            return self._members[self._member_for(work.session)].submit(work)
        # Only this thread submits, so room that was seen stays.
        full = [member for member in self._members if not member.has_room()]
        if full:
            full[0].call_back()
            return False
        with self._lock:
            self._gathered[work.request] = _Gathering(len(self._members))
        for member in self._members:
            member.submit(work)
        return True

    def let_go(self, session: str, done: LetGo) -> None:
        """Have every member that may know the session drop it."""
        if self._together or not self._keeps_order:
            members = self._members
        elif session in self._home:
            members = [self._members[self._home[session]]]
        else:
            done(None)
            return
        outcome = _Gathering(len(members))

        def one_done(error: GreenroomError | None) -> None:
            with self._lock:
                outcome.missing -= 1
                outcome.error = outcome.error or error
                finished = outcome.missing == 0
            if finished:
                if outcome.error is None:
                    self._home.pop(session, None)
                done(outcome.error if isinstance(outcome.error, GreenroomError) else None)

        for member in members:
            member.let_go(session, one_done)

    def working_s(self) -> float:
        """For how long the longest step has been running."""
        return max(member.working_s() for member in self._members)

    def give_up(self, why: str) -> None:
        """Treat all members as dead."""
        for member in self._members:
            member.give_up(why)

    def stop(self, timeout_s: float) -> None:
        """Stop all members, each whatever the others do; raises the first error."""
        errors: list[GreenroomError] = []
        for member in self._members:
            try:
                member.stop(timeout_s)
            except GreenroomError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _member_for(self, session: str) -> int:
        loads = [member.load for member in self._members]
        if not self._keeps_order:
            return loads.index(min(loads))
        if session not in self._home:
            homes = Counter(self._home.values())
            self._home[session] = min(
                range(len(loads)), key=lambda number: (homes[number], loads[number])
            )
        return self._home[session]

    def _reports_of(self, number: int, reports: Reports) -> Reports:
        def died(why: str) -> None:
            self.give_up(why)
            reports.died(why)

        if not self._together:
            return Reports(done=reports.done, failed=reports.failed, free=reports.free, died=died)
        return Reports(
            done=lambda work, values: self._answer(number, work, values, None),
            failed=lambda work, error: self._answer(number, work, None, error),
            free=reports.free,
            died=died,
        )

    def _answer(self, number: int, work: Work, values: object, error: BaseException | None) -> None:
        with self._lock:
            gathering = self._gathered.get(work.request)
            if gathering is None:
                return
            gathering.missing -= 1
            gathering.error = gathering.error or error
            if number == 0:
                gathering.values = values
            if gathering.missing:
                return
            del self._gathered[work.request]
        if self._reports is None:
            return
        if gathering.error is not None:
            self._reports.failed(work, gathering.error)
        else:
            self._reports.done(work, gathering.values)
