"""How does a service run its stages?

    pipeline = Pipeline(graph, {"encode": LocalActor(Encoder()), …})
    pipeline.start()                                    # in the service's start()
    pipeline.open(session)                              # in create_session()
    pipeline.push(session, 0, {"prompt": …})            # False: no room now
    async for output in pipeline.outputs(session): …    # in pull_chunks()
    pipeline.close_from_thread(session)                 # in close_session()
    pipeline.stop_from_thread()                         # in stop()

A pipeline belongs to the event loop on which its first session is opened; only there the core is
touched, so there is no lock between sessions. Actors report from their threads through
``call_soon_threadsafe``. ``start`` and what ends in ``_from_thread`` are for other threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from gpu_node.orchestrator.actors import Actor, Reports
from gpu_node.orchestrator.core import Core, News
from gpu_node.orchestrator.faults import actor_faults
from gpu_node.orchestrator.graph import Graph, plan
from gpu_node.orchestrator.report import report_of, report_of_session
from gpu_node.orchestrator.session import Output, Phase, PipelineSession
from shared.errors import GraphFault, GreenroomError, PipelineMisuse, StageFailed
from shared.lifecycle import Background, in_thread

_log = structlog.get_logger()
_CLOSE_S = 300.0
_STOP_S = 10.0


@dataclass(slots=True)
class _Desk:
    """What is waited for in one session."""

    session: PipelineSession
    output: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    cleaning: asyncio.Task[None] | None = None


class Pipeline:
    """A graph and the actors that run its stages."""

    def __init__(
        self,
        graph: Graph,
        actors: Mapping[str, Actor],
        *,
        step_limit_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check both; *step_limit_s*: after that long in one step an actor counts as dead."""
        self._plan = plan(graph)
        faults = actor_faults(graph, {name: actor.codes for name, actor in actors.items()})
        if faults:
            raise GraphFault(faults=tuple(faults))
        self._actors = [actors[step.stage.id] for step in self._plan.steps]
        self._clock = clock
        self._core = Core(self._plan, clock())
        self._step_limit_s = step_limit_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._desks: dict[str, _Desk] = {}
        self._watches: dict[int, asyncio.TimerHandle] = {}
        self._background = Background()
        self._stopping = False

    def start(self) -> None:
        """Start the actors; before any session, from any thread."""
        for number, actor in enumerate(self._actors):
            actor.start(self._plan.steps[number].stage, self._reports(number))

    # --- sessions, on the pipeline's loop --------------------------------------------------------

    def open(self, session_id: str, *, chunk_media_s: float = 0.0) -> None:
        """Begin a session; *chunk_media_s*: how long one output plays."""
        self._bind()
        if self._stopping:
            raise PipelineMisuse("The pipeline is being stopped.")
        self._core.open(session_id, self._clock(), chunk_media_s)
        self._desks[session_id] = _Desk(self._core.session(session_id))
        self._go_on()

    def push(self, session_id: str, sequence: int, values: Mapping[str, Any]) -> bool:
        """Bring in all of *values* for one sequence; False if there is no room for all of them."""
        pushed = self._core.push(session_id, sequence, values, self._clock())
        self._go_on()
        return pushed

    async def push_when_room(
        self, session_id: str, sequence: int, values: Mapping[str, Any]
    ) -> bool:
        """Wait for room and push; False if the session ends before there is any."""
        desk = self._desk(session_id)
        while desk.session.phase is Phase.RUNNING:
            if self.push(session_id, sequence, values):
                return True
            desk.room.clear()
            await desk.room.wait()
        return False

    def latch(self, session_id: str, artifact: str, value: object) -> None:
        """Let *value* count from the next beginning of the stages that read it."""
        self._core.latch(session_id, artifact, value, self._clock())
        self._go_on()

    def declare_end(self, session_id: str, count: int) -> None:
        """Say that there will be *count* sequences, before the last is pushed."""
        self._core.declare_end(session_id, count, self._clock())
        self._go_on()

    def poll(self, session_id: str) -> Output | None:
        """Return the next output if it is there; raises what the session failed with."""
        output = self._core.take_output(session_id, self._clock())
        self._go_on()
        error = self._desk(session_id).session.error
        if output is None and error is not None:
            raise error
        return output

    async def next_output(self, session_id: str) -> Output | None:
        """Wait for the next output; None after the last one; raises what the session failed with.

        Giving up the wait loses nothing: an output is taken only when it is returned.
        """
        desk = self._desk(session_id)
        while self._desks.get(session_id) is desk:
            output = self.poll(session_id)
            if output is not None:
                return output
            if desk.session.phase is not Phase.RUNNING:
                break
            desk.output.clear()
            await desk.output.wait()
        return None

    async def outputs(self, session_id: str) -> AsyncIterator[Output]:
        """Yield all outputs in order."""
        while (output := await self.next_output(session_id)) is not None:
            yield output

    def cancel(self, session_id: str) -> None:
        """Let go of all that waits and begin nothing more; `close` does the rest."""
        if session_id in self._desks:
            self._core.stop(session_id, self._clock())
            self._go_on()

    async def close(self, session_id: str, timeout_s: float | None = _CLOSE_S) -> None:
        """Return when nothing of the session is left in any stage.

        Stops admission, drops what waits, waits for what is in flight, then has the stages let go,
        last ones first. If one can't, or not within *timeout_s*, this raises the first error and
        may be called again: stages that did let go are left alone.
        """
        desk = self._desks.get(session_id)
        if desk is None:
            return
        self.cancel(session_id)
        task = self._clean(desk)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(task)
        except TimeoutError:
            raise self._unclean(session_id, timeout_s or 0.0) from None
        if self._desks.get(session_id) is not desk:
            return  # somebody else closed it at the same time
        if self._core.uncleaned(session_id):
            raise desk.session.cleanup_error or self._unclean(session_id, timeout_s or 0.0)
        self._core.forget(session_id)
        del self._desks[session_id]

    async def aclose(self, *, drain_s: float = 0.0, timeout_s: float = _STOP_S) -> None:
        """Let sessions finish for *drain_s*, close them and the actors; raises the first error.

        Everything is tried before anything is raised.
        """
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                for desk in list(self._desks.values()):
                    await desk.quiet.wait()
        outcomes: list[BaseException | None] = await asyncio.gather(
            *(self.close(session_id, timeout_s) for session_id in list(self._desks)),
            return_exceptions=True,
        )
        try:
            await in_thread("pipeline-stop", lambda: self._stop_actors(timeout_s))
        except GreenroomError as error:
            outcomes.append(error)
        await self._background.aclose()
        for watch in self._watches.values():
            watch.cancel()
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def metrics(self) -> dict[str, Any]:
        """Return what the pipeline did and what its stages waited for."""
        return report_of(self._core, self._clock())

    def session_metrics(self, session_id: str) -> dict[str, Any]:
        """Return how quick one session's outputs are, its real-time factor among them."""
        return report_of_session(self._core.session(session_id))

    # --- for other threads -----------------------------------------------------------------------

    def close_from_thread(self, session_id: str, timeout_s: float = _CLOSE_S) -> None:
        """`close`, for a thread that isn't the loop's."""
        if self._loop is None:
            return
        # The thread keeps the time: a loop holds on to its cancelled timers for a while.
        closing = asyncio.run_coroutine_threadsafe(self.close(session_id, None), self._loop)
        try:
            closing.result(timeout_s)
        except concurrent.futures.TimeoutError:
            if closing.cancel():
                raise self._unclean(session_id, timeout_s) from None
            closing.result()  # it was through at the last moment

    def stop_from_thread(self, timeout_s: float = _STOP_S) -> None:
        """`aclose`, for a thread that isn't the loop's."""
        if self._loop is None:
            self._stop_actors(timeout_s)
        else:
            work = self.aclose(timeout_s=timeout_s)
            asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # --- inside ----------------------------------------------------------------------------------

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            raise PipelineMisuse("A pipeline belongs to one event loop.")
        self._loop = loop

    def _desk(self, session_id: str) -> _Desk:
        try:
            return self._desks[session_id]
        except KeyError:
            raise PipelineMisuse("This session isn't open.") from None

    def _reports(self, number: int) -> Reports:
        return Reports(
            done=lambda work, values: self._soon(self._core.completed, work, values),
            failed=lambda work, error: self._soon(self._core.failed, work, error),
            free=lambda: self._soon(self._core.actor_free, number),
            died=lambda why: self._soon(self._core.actor_died, number, why),
        )

    def _soon(self, tell: Callable[..., None], *what: object) -> None:
        """Actors' threads: tell the core on its loop; after the loop there is nobody to tell."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hear, tell, what)

    def _hear(self, tell: Callable[..., None], what: tuple[object, ...]) -> None:
        tell(*what, self._clock())
        self._go_on()

    def _go_on(self) -> None:
        """Begin all that can begin, then wake those who wait for what has changed."""
        while (work := self._core.next_work(self._clock())) is not None:
            if not self._actors[work.stage].submit(work):
                self._core.restore(work, self._clock())
            elif self._step_limit_s is not None:
                self._watch(work.stage, self._step_limit_s)
        while self._core.news:
            news, session_id = self._core.news.popleft()
            desk = self._desks.get(session_id)
            if desk is None:
                continue
            match news:
                case News.OUTPUT:
                    desk.output.set()
                case News.ROOM:
                    desk.room.set()
                case News.QUIET:
                    desk.quiet.set()
                case News.FAILED:
                    self._clean(desk)

    def _watch(self, stage: int, after_s: float) -> None:
        """See to it that somebody looks at a stage that works; one timer each, not one per step."""
        if self._loop is not None and stage not in self._watches:
            self._watches[stage] = self._loop.call_later(after_s, self._look_at, stage)

    def _look_at(self, stage: int) -> None:
        """A step may be taking too long: then its actor is given up."""
        del self._watches[stage]
        line, limit_s = self._core.turns.lines[stage], self._step_limit_s or 0.0
        if line.dead or not line.in_flight:
            return
        rest_s = limit_s - self._actors[stage].working_s()
        if rest_s > 0:
            self._watch(stage, rest_s)
            return
        why = f"it has been busy with one step for more than {limit_s:g} s."
        self._actors[stage].give_up(why)
        self._core.actor_died(stage, why, self._clock())
        self._go_on()

    def _clean(self, desk: _Desk) -> asyncio.Task[None]:
        """The one task that has the stages let go; a new one after one that didn't get through."""
        if desk.cleaning is None or desk.cleaning.done():
            desk.cleaning = self._background.start("pipeline cleanup", self._let_go(desk))
        return desk.cleaning

    async def _let_go(self, desk: _Desk) -> None:
        await desk.quiet.wait()
        session_id = desk.session.id
        for stage in self._core.uncleaned(session_id):
            error = await self._let_stage_go(stage, session_id)
            if error is None:
                self._core.cleaned(session_id, stage)
            else:
                self._core.cleanup_failed(session_id, error)
                _log.warning("stage_kept_session", error=str(error))

    async def _let_stage_go(self, stage: int, session_id: str) -> GreenroomError | None:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[GreenroomError | None] = loop.create_future()

        def settle(error: GreenroomError | None) -> None:
            if not outcome.done():
                outcome.set_result(error)

        def done(error: GreenroomError | None) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, error)

        self._actors[stage].let_go(session_id, done)
        return await outcome

    def _unclean(self, session_id: str, timeout_s: float) -> StageFailed:
        session = self._core.session(session_id)
        stuck = [work.stage for work in list(session.in_flight.values())]
        stuck += [*self._core.uncleaned(session_id), 0]
        return StageFailed(
            stage=self._plan.steps[stuck[0]].stage.id,
            what=f"it hasn't let go of a session within {timeout_s:g} s.",
        )

    def _stop_actors(self, timeout_s: float) -> None:
        errors: list[GreenroomError] = []
        for actor in reversed(self._actors):
            try:
                actor.stop(timeout_s)
            except GreenroomError as error:
                errors.append(error)
        if errors:
            raise errors[0]
