"""Who runs a stage's code?

An actor. A `LocalActor` is one thread with a bounded mailbox: one step at a time, in the order in
which they were handed over. A full mailbox refuses, and the pipeline asks again when it is told
that there is room. `parallel.ParallelActor` spreads a stage over several of them.

What a stage is, for its author: an object with ``run(call)`` that returns a mapping with every
artifact that the stage produces. Optional, and called in the same thread, so that a stage needs no
lock: ``run_batch(calls)`` for several sessions at once, ``close(session)`` to let go of what it
keeps of a session, ``shutdown()`` at the end. Whatever these raise is that session's failure;
`ActorDied` alone says that the actor is through for everybody.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_node.orchestrator.graph import Stage
from gpu_node.orchestrator.session import Work
from shared.errors import ActorDied, GreenroomError, StageFailed
from shared.lifecycle import call_foreign, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a stage's code is given."""

    session: str
    sequence: int
    inputs: dict[str, Any]


class StageCode(Protocol):
    """What an author writes."""

    def run(self, call: Call, /) -> Mapping[str, Any]:
        """Return the stage's products for one sequence of one session."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Whom an actor tells; called from its thread."""

    done: Callable[[Work, object], None]
    failed: Callable[[Work, BaseException], None]
    free: Callable[[], None]
    """After a refusal: there is room again."""
    died: Callable[[str], None]


LetGo = Callable[[GreenroomError | None], None]


class Actor(Protocol):
    """What a pipeline needs of whoever runs a stage."""

    @property
    def codes(self) -> Sequence[StageCode]:
        """The code that it owns; nobody else may run it."""
        ...

    def start(self, stage: Stage, reports: Reports) -> None:
        """Begin to work, once."""
        ...

    def submit(self, work: Work) -> bool:
        """Take *work*, or say False because there is no room now."""
        ...

    def let_go(self, session: str, done: LetGo) -> None:
        """Have the code drop what it keeps of a session, then call *done* from any thread."""
        ...

    def working_s(self) -> float:
        """For how long the step that runs now has been running; 0 between two steps."""
        ...

    def give_up(self, why: str) -> None:
        """Treat it as dead: it takes nothing more and what waits is dropped."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Shut the code down and return when its threads have ended; raises `StageFailed`."""
        ...


class LocalActor:
    """One thread that runs one stage's code."""

    def __init__(self, code: StageCode, *, mailbox: int = 4, batch: int = 1) -> None:
        self.codes = (code,)
        self._code = code
        self._mailbox_size = mailbox
        self._most_at_once = batch if hasattr(code, "run_batch") else 1
        self._mailbox: deque[Work | tuple[str, LetGo]] = deque()
        self._changed = threading.Condition()
        """Held for moments only; guards all below. One per actor, none for the pipeline."""
        self._works_waiting = 0
        self._refused = False
        self._began_s: float | None = None
        self._stopping = False
        self._dead: str | None = None
        self._shutdown_error: GreenroomError | None = None
        self._thread: threading.Thread | None = None
        self._stage_id = ""
        self._reports: Reports | None = None

    @property
    def load(self) -> int:
        """How much it has before it."""
        with self._changed:
            return len(self._mailbox) + (self._began_s is not None)

    def has_room(self) -> bool:
        """Whether `submit` would take something; stays true until the same thread submits."""
        with self._changed:
            return self._works_waiting < self._mailbox_size

    def start(self, stage: Stage, reports: Reports) -> None:
        """Begin to work, once."""
        if self._thread is not None:
            raise StageFailed(stage=stage.id, what="its actor drives a stage already.")
        self._stage_id, self._reports = stage.id, reports
        self._thread = threading.Thread(
            target=self._run, args=(reports,), name=f"stage-{stage.id}", daemon=True
        )
        self._thread.start()

    def submit(self, work: Work) -> bool:
        """Put *work* in the mailbox; False if it's full."""
        with self._changed:
            if self._works_waiting >= self._mailbox_size:
                self._refused = True
                return False
            if self._dead is None:
                self._works_waiting += 1
                self._mailbox.append(work)
                self._changed.notify()
        return True

    def call_back(self) -> None:
        """Report when there is room, which may be at once."""
        with self._changed:
            self._refused = full = self._works_waiting >= self._mailbox_size
        if not full and self._reports is not None:
            self._reports.free()

    def let_go(self, session: str, done: LetGo) -> None:
        """Have the code drop what it keeps of *session*; goes in however full the mailbox is."""
        with self._changed:
            dead = self._dead
            if self._stopping:
                dead = dead or "it has been stopped."
            if dead is None:
                self._mailbox.append((session, done))
                self._changed.notify()
        if dead is not None:
            done(ActorDied(stage=self._stage_id, what=dead))

    def working_s(self) -> float:
        """For how long the step that runs now has been running; 0 between two steps."""
        began_s = self._began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def give_up(self, why: str) -> None:
        """Take nothing more; the thread ends when its step does, if ever."""
        with self._changed:
            if self._dead is not None:
                return
            self._dead = why
            waiting, self._mailbox = self._mailbox, deque()
            self._changed.notify()
        for job in waiting:
            if not isinstance(job, Work):
                job[1](ActorDied(stage=self._stage_id, what=why))

    def stop(self, timeout_s: float) -> None:
        """Shut the code down after what was let go before."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise StageFailed(stage=self._stage_id, what=f"it didn't stop within {timeout_s:g} s.")
        if self._shutdown_error is not None:
            raise self._shutdown_error

    # --- its thread ------------------------------------------------------------------------------

    def _run(self, reports: Reports) -> None:
        while (job := self._next()) is not None:
            death = self._work(job, reports) if isinstance(job, list) else self._close(*job)
            if death is not None:
                self.give_up(death.what)
                reports.died(death.what)
        shutdown = getattr(self._code, "shutdown", None)
        if shutdown is not None:
            self._shutdown_error = self._outcome(shutdown)

    def _next(self) -> list[Work] | tuple[str, LetGo] | None:
        with self._changed:
            self._began_s = None
            while not self._mailbox and not self._stopping and self._dead is None:
                self._changed.wait()
            if not self._mailbox:
                return None
            first = self._mailbox.popleft()
            works = self._and_more(first) if isinstance(first, Work) else []
            self._began_s = time.monotonic()
            free, self._refused = self._refused and bool(works), self._refused and not works
        if free and self._reports is not None:
            self._reports.free()
        return works or first  # type: ignore[return-value]

    def _and_more(self, first: Work) -> list[Work]:
        """With the lock: what of the mailbox goes into one batch, one work of each session."""
        works = [first]
        sessions = {first.session}
        while len(works) < self._most_at_once and self._mailbox:
            job = self._mailbox[0]
            if not isinstance(job, Work) or job.session in sessions:
                break
            sessions.add(job.session)
            works.append(job)
            self._mailbox.popleft()
        self._works_waiting -= len(works)
        return works

    def _work(self, works: list[Work], reports: Reports) -> ActorDied | None:
        calls = [Call(session=w.session, sequence=w.sequence, inputs=w.inputs) for w in works]
        results: Sequence[object]
        try:
            results = self._run_calls(calls)
        except ActorDied as death:
            return death
        except GreenroomError as error:
            results = [error] * len(works)
        for work, result in zip(works, results, strict=True):
            if isinstance(result, BaseException):
                reports.failed(work, result)
            else:
                reports.done(work, result)
        return None

    def _run_calls(self, calls: list[Call]) -> Sequence[object]:
        run_batch = getattr(self._code, "run_batch", None)
        if self._most_at_once == 1 or run_batch is None:
            (call,) = calls
            return [call_foreign(lambda: self._code.run(call), self._fault)]
        results = call_foreign(lambda: list(run_batch(calls)), self._fault)
        if len(results) != len(calls):
            what = f"run_batch() returned {len(results)} results for {len(calls)} calls."
            raise StageFailed(stage=self._stage_id, what=what)
        return results

    def _close(self, session: str, done: LetGo) -> ActorDied | None:
        close = getattr(self._code, "close", None)
        error = None if close is None else self._outcome(lambda: close(session))
        done(error)
        return error if isinstance(error, ActorDied) else None

    def _outcome(self, call: Callable[[], object]) -> GreenroomError | None:
        try:
            call_foreign(call, self._fault)
        except GreenroomError as error:
            return error
        return None

    def _fault(self, error: BaseException) -> StageFailed:
        return StageFailed(stage=self._stage_id, what=f"{describe(error)}.")
