"""What happens next in a pipeline?

The core decides, a driver does: it asks `Core.next_work`, hands the work to an actor and reports
back. The core has no clock, thread or lock; one thread owns it, and time comes in with each call.
Every call looks at what it touches: the stages next to the one that ended, the session that was
pushed to, never all sessions.

An item is named by session, *epoch*, sequence, stage and request. The epoch is raised each time
that a session id is opened, so a result that comes late, from an actor that was given up, is told
from one of the session's next life: it is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from gpu_node.orchestrator.graph import Plan
from gpu_node.orchestrator.measures import Diagnostics, SessionTimes, Totals
from gpu_node.orchestrator.session import Output, Phase, PipelineSession, Work
from gpu_node.orchestrator.turns import Turns
from shared.errors import PipelineMisuse, StageFailed


class News(StrEnum):
    """What whoever waits for a session may want to know."""

    OUTPUT = "output"
    """The next output can be taken, or there will be none."""
    ROOM = "room"
    """More may be pushed."""
    FAILED = "failed"
    QUIET = "quiet"
    """Nothing of it is in flight, and nothing more will begin."""


class Core:
    """All sessions of one pipeline."""

    def __init__(self, plan: Plan, now_s: float) -> None:
        self.plan = plan
        self.news: deque[tuple[News, str]] = deque()
        """Emptied by the driver after each call."""
        self.diagnostics = Diagnostics()
        self.totals = Totals()
        self.sessions: dict[str, PipelineSession] = {}
        self.turns = Turns(plan, now_s)
        self._epoch = self._request = 0

    # --- sessions --------------------------------------------------------------------------------

    def open(self, session_id: str, now_s: float, chunk_media_s: float = 0.0) -> int:
        """Begin a session and return its epoch; raises while its former life isn't gone."""
        if session_id in self.sessions:
            raise PipelineMisuse("This session is open already; close it first.")
        for line in self.turns.lines:
            if line.dead:
                raise StageFailed(stage=self._id(line.number), what="its actor is dead.")
        self._epoch += 1
        times = SessionTimes(now_s, chunk_media_s, self.totals)
        session = PipelineSession(self.plan, session_id, self._epoch, times)
        self.sessions[session_id] = session
        self._look_at(session, range(len(self.plan.steps)), now_s)
        return self._epoch

    def push(self, session_id: str, sequence: int, values: Mapping[str, Any], now_s: float) -> bool:
        """Bring in all of *values* for one sequence, or none of them: False means no room yet."""
        session = self.session(session_id)
        if session.phase is not Phase.RUNNING:
            return False
        if not session.push(sequence, values, now_s):
            return False
        targets = [self.plan.targets[edge] for name in values for edge in self.plan.outside[name]]
        self._look_at(session, targets, now_s)
        return True

    def latch(self, session_id: str, name: str, value: object, now_s: float) -> None:
        """Let *value* be the newest of a latched artifact."""
        session = self.session(session_id)
        if session.phase is Phase.RUNNING:
            session.latch(name, value, now_s)
            self._look_at(session, self.plan.latched[name], now_s)

    def declare_end(self, session_id: str, count: int, now_s: float) -> None:
        """Say how many sequences there will be, before the last of them comes in."""
        session = self.session(session_id)
        if session.phase is Phase.RUNNING:
            session.declare_end(count)
            self._look_at(session, range(len(self.plan.steps)), now_s)

    def take_output(self, session_id: str, now_s: float) -> Output | None:
        """Return the next output, if it is complete; its room is free from now on."""
        session = self.session(session_id)
        output = session.take_output()
        if output is not None:
            makers = [n for n, step in enumerate(self.plan.steps) if step.makes_output]
            self._look_at(session, makers, now_s)
            self._tell_quiet(session)
        return output

    def stop(self, session_id: str, now_s: float) -> None:
        """Begin nothing more for a session and let go of all that waits; safe to repeat."""
        session = self.session(session_id)
        if session.phase is not Phase.CLOSING:
            session.move(Phase.CLOSING)
            self._drop(session, now_s)

    def uncleaned(self, session_id: str) -> list[int]:
        """Return the stages that still have to let go of a quiet session, last ones first."""
        progress = self.session(session_id).progress
        return [n for n in reversed(range(len(progress))) if not progress[n].let_go]

    def cleaned(self, session_id: str, stage: int) -> None:
        """A stage has let go."""
        self.session(session_id).progress[stage].let_go = True

    def cleanup_failed(self, session_id: str, error: BaseException) -> None:
        """A stage couldn't let go; the first such error is the one that is kept."""
        session = self.session(session_id)
        session.cleanup_error = session.cleanup_error or error
        self.diagnostics.cleanup_failures += 1

    def forget(self, session_id: str) -> None:
        """Drop a session that is clean; what it still holds is a leak, dropped and counted."""
        session = self.sessions.pop(session_id)
        if session.held or session.in_flight or any(not one.let_go for one in session.progress):
            self.diagnostics.slot_leaks += 1

    def session(self, session_id: str) -> PipelineSession:
        """Return an open session."""
        try:
            return self.sessions[session_id]
        except KeyError:
            raise PipelineMisuse("This session isn't open.") from None

    # --- work ------------------------------------------------------------------------------------

    def next_work(self, now_s: float) -> Work | None:
        """Return what an actor should begin now; None until something changes."""
        turn = self.turns.next()
        if turn is None:
            return None
        line, session = turn
        _, sequence = session.look(line.number)
        self._request += 1
        work = Work(
            request=self._request,
            session=session.id,
            epoch=session.epoch,
            stage=line.number,
            sequence=sequence,
            inputs=session.begin(line.number, sequence),
        )
        session.in_flight[work.request] = work
        session.times.busy.begin(now_s)
        self._look_at(session, (line.number,), now_s)
        self.turns.began(line, now_s)
        step = self.plan.steps[line.number]
        self._look_at(session, {source for _, source in step.before}, now_s)
        if len(step.before) < len(step.takes):
            self.news.append((News.ROOM, session.id))
        return work

    def restore(self, work: Work, now_s: float) -> None:
        """The actor had no room for *work*, which was just taken: it waits until `actor_free`."""
        session, line = self.sessions[work.session], self.turns.lines[work.stage]
        session.give_back(work)
        line.busy = True
        line.counts.refused += 1
        line.counts.begun -= 1
        self._out_of_flight(session, work, now_s)
        self._look_at(session, (work.stage, *self._sources(work.stage)), now_s)
        line.ready.move_to_end(session.id, last=False)

    def actor_free(self, stage: int, now_s: float) -> None:
        """An actor that refused has room again."""
        self.turns.free(self.turns.lines[stage], now_s)

    def completed(self, work: Work, values: object, now_s: float) -> None:
        """A stage is through with *work*; results that nobody waits for are dropped and counted."""
        session = self._expecting(work)
        if session is None:
            return
        made, fault = self._checked(work, values)
        if fault:
            self.failed(work, StageFailed(stage=self._id(work.stage), what=fault), now_s)
            return
        self.turns.lines[work.stage].counts.completed += 1
        self._out_of_flight(session, work, now_s)
        if session.phase is not Phase.RUNNING:
            self.diagnostics.discarded += 1
            self._tell_quiet(session)
            return
        session.complete(work, made, now_s)
        step = self.plan.steps[work.stage]
        self._look_at(session, (work.stage, *step.after), now_s)
        if session.output_waits:
            self.news.append((News.OUTPUT, session.id))

    def failed(self, work: Work, error: BaseException, now_s: float) -> None:
        """A stage raised: this session gets nothing more; the others don't notice."""
        session = self._expecting(work)
        if session is None:
            return
        self.turns.lines[work.stage].counts.failed += 1
        self._out_of_flight(session, work, now_s)
        if not isinstance(error, StageFailed):
            failure = StageFailed(
                stage=self._id(work.stage), what=f"{type(error).__name__}: {error}."
            )
            failure.__cause__ = error
            error = failure
        self._fail(session, error, now_s)

    def actor_died(self, stage: int, why: str, now_s: float) -> None:
        """Nothing comes from this actor any more: every session that runs has failed."""
        line = self.turns.lines[stage]
        if line.dead:
            return
        line.dead = True
        for session in list(self.sessions.values()):
            for work in [one for one in session.in_flight.values() if one.stage == stage]:
                self._out_of_flight(session, work, now_s)
            self._fail(session, StageFailed(stage=self._id(stage), what=why), now_s)

    # --- inside ----------------------------------------------------------------------------------

    def _id(self, stage: int) -> str:
        return self.plan.steps[stage].stage.id

    def _sources(self, stage: int) -> set[int]:
        return {source for _, source in self.plan.steps[stage].before}

    def _look_at(self, session: PipelineSession, stages: Iterable[int], now_s: float) -> None:
        for number in stages:
            self.turns.place(number, session, session.look(number)[0], now_s)

    def _expecting(self, work: Work) -> PipelineSession | None:
        session = self.sessions.get(work.session)
        if session is None:
            self.diagnostics.orphaned += 1
        elif session.epoch != work.epoch:
            self.diagnostics.stale_epoch += 1
        elif work.request not in session.in_flight:
            self.diagnostics.duplicate += 1
        else:
            return session
        return None

    def _out_of_flight(self, session: PipelineSession, work: Work, now_s: float) -> None:
        del session.in_flight[work.request]
        session.progress[work.stage].in_flight -= 1
        session.times.busy.end(now_s)
        self.turns.ended(self.turns.lines[work.stage], now_s)

    def _checked(self, work: Work, values: object) -> tuple[Mapping[str, Any], str]:
        """What a stage made, and what is wrong with it."""
        wanted = self.plan.steps[work.stage].stage.produces
        if not isinstance(values, Mapping):
            got = type(values).__name__
            return {}, f"it must return a mapping with {', '.join(wanted)}, not {got}."
        if set(values) != set(wanted):
            got = ", ".join(map(str, values)) or "nothing"
            return {}, f"it must return {', '.join(wanted)}, and it returned {got}."
        for name, value in values.items():
            type_ = self.plan.types[name]
            if not isinstance(value, type_):
                got = type(value).__name__
                return {}, f"its {name} must be {type_.__name__}, not {got}."
        return values, ""

    def _fail(self, session: PipelineSession, error: BaseException, now_s: float) -> None:
        if session.phase is Phase.RUNNING:
            session.error = error
            session.move(Phase.FAILED)
            self._drop(session, now_s)
            self.news.append((News.FAILED, session.id))
        else:
            self._tell_quiet(session)

    def _drop(self, session: PipelineSession, now_s: float) -> None:
        session.discard()
        self.turns.remove(session, now_s)
        self.news.append((News.OUTPUT, session.id))
        self.news.append((News.ROOM, session.id))
        self._tell_quiet(session)

    def _tell_quiet(self, session: PipelineSession) -> None:
        if session.phase is not Phase.RUNNING and not session.in_flight:
            self.news.append((News.QUIET, session.id))
