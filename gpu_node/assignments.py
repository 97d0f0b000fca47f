"""Which sessions has this node been given?

The beat's reply says it: what to start, what to stop, and what to bring back to a registry that
lost it. These lists come again with each beat until they're dealt with, so all of this may be told
twice. Of two assignments of one session only the higher epoch counts, and a session that still has
leftovers here is started again after they are gone. A session stays in the node's list until its
runner is through, whatever that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable

import structlog

from gpu_node.claim import Claim
from gpu_node.ending import reason_of
from gpu_node.heartbeat import Heartbeat
from gpu_node.move_notice import MoveNotice
from gpu_node.runner import Runner
from shared.clock import Clock
from shared.lifecycle import Background
from shared.records import Assignment, BeatConfirmed, Kill
from shared.states import SessionState
from shared.store import Registry

_log = structlog.get_logger()

FENCED = "fenced"
_EPOCHS_KEPT = 4096
_GIVE_BACK_WITHIN_S = 10.0
_LOOK_AGAIN_S = 0.05
_SAY_AFTER_S = 1.0
"""A wait that takes longer is told of."""


class Assignments:
    """The runners of one node. Used on the agent's loop alone."""

    def __init__(
        self,
        registry: Registry,
        heartbeat: Heartbeat,
        make_runner: Callable[[Assignment], Runner],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._heartbeat = heartbeat
        self._make_runner = make_runner
        self._clock = clock
        self._move_notice = MoveNotice()
        self._runners: dict[str, Runner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By session, like the runners; gone when the runner has ended."""
        self._background = Background()
        self._answering: set[Assignment] = set()
        self._highest: OrderedDict[str, int] = OrderedDict()
        """The highest epoch that was started, per session: nothing at or below it starts again."""
        self._draining = False
        self._lost_because = ""
        """The service is gone, for this word of the registry; what is assigned meanwhile goes back
        at once."""

    def apply(self, reply: BeatConfirmed) -> None:
        """Start and stop what a beat's reply says."""
        for kill in reply.kills:
            self._kill(kill)
        for resident in reply.adopt:
            self._bring_back(resident)
        for todo in reply.todo:
            self._accept(todo)
        self._follow_live_drain(reply.moves_in_s)
        self.check()

    def check(self) -> None:
        """Let every session ask the node lease."""
        for runner in self._runners.values():
            runner.check()

    def keep_only(self, kept: frozenset[Assignment]) -> None:
        """The registry declared this node dead: only *kept* is still ours."""
        for runner in self._runners.values():
            if runner.assignment not in kept:
                runner.lose()

    @property
    def holds_leftovers_alone(self) -> bool:
        """Whether all that is here are sessions that the service won't close."""
        return bool(self._runners) and all(runner.is_stuck for runner in self._runners.values())

    def lose_service(self, why: str = "service_lost") -> None:
        """The service's process has died: all sessions return, and nothing is left to clean up.

        Or *why* is ``gpu_lost``: what can't be cleaned up will go with the process.
        """
        self._lost_because = self._lost_because or why
        for session_id, runner in list(self._runners.items()):
            if session_id in self._tasks:
                runner.give_back(why)
            else:  # its clean-up had failed; the death has done it
                del self._runners[session_id]
                self._heartbeat.unlist(runner.assignment)

    def regain_service(self) -> None:
        """Another process serves."""
        self._lost_because = ""

    async def drain(self, grace_s: float, *, clean_up_s: float = _GIVE_BACK_WITHIN_S) -> None:
        """Let running sessions finish within the grace, give all others back; bounded.

        What was given back plays elsewhere by then; its clean-up here may take *clean_up_s* more.
        """
        self._draining = True
        for runner in self._runners.values():
            if runner.state is not SessionState.RUNNING:
                runner.give_back("node_shutdown")
        await self._wait(grace_s)
        for runner in self._runners.values():
            runner.give_back("node_shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK_WITHIN_S):
                while self._held():  # noqa: ASYNC110 - the registry has to answer for each
                    await asyncio.sleep(_LOOK_AGAIN_S)
        await self._wait(min(_SAY_AFTER_S, clean_up_s))
        if self._cleaning():
            _log.info("waits_for_clean_up", sessions=len(self._cleaning()), at_most_s=clean_up_s)
            await self._wait(clean_up_s - _SAY_AFTER_S)

    async def aclose(self) -> None:
        """Abandon whatever is left; the registry learns it from the node's goodbye."""
        await self._background.aclose()

    def _follow_live_drain(self, moves_in_s: float | None) -> None:
        """Count down in the rooms; at the end all sessions go elsewhere, with their tickets."""
        is_due = self._move_notice.is_due(moves_in_s, self._clock.monotonic_s())
        for runner in self._runners.values():
            if moves_in_s == 0:
                runner.give_back("node_drained")
            elif is_due:
                runner.tell_move(moves_in_s)

    def _accept(self, assignment: Assignment) -> None:
        if assignment.epoch <= self._highest.get(assignment.session_id, 0):
            return
        older = self._runners.get(assignment.session_id)
        if older is not None:
            older.lose()  # the to-do comes again until the older one has gone
            return
        self._highest[assignment.session_id] = assignment.epoch
        self._highest.move_to_end(assignment.session_id)
        if len(self._highest) > _EPOCHS_KEPT:
            self._highest.popitem(last=False)
        self._start(assignment)

    def _start(self, assignment: Assignment) -> None:
        _log.info("session_accepted", session=assignment.session_id, epoch=assignment.epoch)
        self._heartbeat.list_resident(assignment)  # before the runner tells the registry (R7)
        runner = self._make_runner(assignment)
        self._runners[assignment.session_id] = runner
        if self._draining:
            runner.give_back("node_shutdown")
        elif self._lost_because:
            runner.give_back(self._lost_because)
        task = self._background.start(f"session {assignment.session_id}", runner.run())
        self._tasks[assignment.session_id] = task
        task.add_done_callback(lambda task: self._on_done(runner, task))

    def _on_done(self, runner: Runner, task: asyncio.Task[None]) -> None:
        """A runner ended. One that couldn't clean up stays, and so does its session in the list."""
        self._tasks.pop(runner.assignment.session_id, None)
        failed = task.cancelled() or task.exception() is not None
        if not failed and not runner.is_stuck:
            del self._runners[runner.assignment.session_id]
            self._heartbeat.poke()  # the session may be waiting to be started here again

    def _kill(self, kill: Kill) -> None:
        runner = self._runners.get(kill.session_id)
        if runner is not None and runner.is_rebasing and kill.reason != FENCED:
            return  # it may name an epoch that we haven't heard of yet; it comes again
        if runner is not None and runner.assignment.epoch == kill.epoch:
            if kill.reason == FENCED:
                runner.lose()
            else:
                runner.stop(reason_of(kill.reason))
        elif kill.reason != FENCED:
            self._confirm_gone(kill)

    def _bring_back(self, resident: Assignment) -> None:
        """The registry has lost a session, or knows it from an earlier time (R6)."""
        runner = self._runners.get(resident.session_id)
        if (
            runner is not None
            and runner.assignment == resident
            and resident.session_id in self._tasks
        ):
            runner.bring_back()

    def _confirm_gone(self, kill: Kill) -> None:
        """A session was ended before it was started here: there is nothing to clean up."""
        assignment = Assignment(session_id=kill.session_id, epoch=kill.epoch)
        if assignment in self._answering:
            return
        self._answering.add(assignment)

        async def answer() -> None:
            try:
                claim = Claim(self._registry, self._heartbeat, assignment)
                await claim.end_once(reason_of(kill.reason))
            finally:
                self._answering.discard(assignment)

        self._background.start(f"confirm {kill.session_id}", answer())

    def _held(self) -> bool:
        """Whether the registry hasn't answered yet for a session that can be given back."""
        listed = set(self._heartbeat.residents())
        return any(self._runners[name].assignment in listed for name in self._cleaning())

    def _cleaning(self) -> dict[str, asyncio.Task[None]]:
        """The sessions that aren't through and can be."""
        return {
            session_id: task
            for session_id, task in self._tasks.items()
            if not self._runners[session_id].is_stuck
        }

    async def _wait(self, timeout_s: float) -> None:
        """Wait until every session is through that can be, at most *timeout_s*."""
        if timeout_s > 0 and (tasks := self._cleaning()):
            await asyncio.wait(set(tasks.values()), timeout=timeout_s)
