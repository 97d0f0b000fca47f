"""How does a runner speak for its session in the registry?

Every call quotes the node's present life and the session's epoch, and is repeated until it was
answered: the scripts allow it, and a resident may only leave the node's list once its last call
was.

"Fenced" alone proves little: the registry may just have forgotten this life, and the next one keeps
the session; or it has lost the session, and asks for its bundle first. Only the kill list closes a
session (R2). So after such an answer a beat is sent at once, and the call repeated, until the kill
list has said it or the answer is another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from gpu_node.bundle import Bundle
from gpu_node.heartbeat import Heartbeat
from shared.errors import IllegalMove, StoreUnavailable
from shared.records import AdvanceReply, Assignment, Fenced, Moved, Owner
from shared.silence import Silence
from shared.states import Reason, SessionState
from shared.store import Registry

T = TypeVar("T")
_log = structlog.get_logger()

_AGAIN_S = 0.3
_STEPS = (
    SessionState.ASSIGNED,
    SessionState.JOINING_ROOM,
    SessionState.STARTING_PIPELINE,
    SessionState.RUNNING,
)


class Claim:
    """One session's assignment to this node, as the registry is told of it."""

    def __init__(self, registry: Registry, heartbeat: Heartbeat, assignment: Assignment) -> None:
        self._registry = registry
        self._heartbeat = heartbeat
        self.assignment = assignment
        self.state = SessionState.ASSIGNED
        """The furthest step that the registry confirmed; after that it only ends."""
        self._lost = asyncio.Event()
        self._settled = False
        """The registry has answered `end` or `give_back`: the session is nobody's here."""

    @property
    def is_lost(self) -> bool:
        """The kill list said that the session belongs to somebody else."""
        return self._lost.is_set()

    def lose(self) -> None:
        """The kill list said so: no call of this claim counts any more."""
        self._lost.set()

    async def advance(
        self,
        state: SessionState,
        *,
        pipeline_session_id: str | None = None,
        reason: Reason | None = None,
    ) -> AdvanceReply:
        """Move the session to *state*; `Fenced` is final."""

        async def call(owner: Owner) -> AdvanceReply:
            try:
                return await self._registry.advance(
                    owner,
                    state,
                    stamp=self._heartbeat.stamp,
                    pipeline_session_id=pipeline_session_id,
                    reason=reason,
                )
            except IllegalMove as refused:
                if not self._has_lost_steps(refused.source):
                    raise
                return Fenced()  # it must be brought forward first; the next beat's reply asks

        reply = await self._ask(call, is_fenced=lambda reply: isinstance(reply, Fenced))
        if isinstance(reply, Moved) and state in _STEPS:
            self.state = state
            self._heartbeat.note_step(self.assignment, state)
        return reply or Fenced()

    def _has_lost_steps(self, known: str) -> bool:
        """Whether the registry came back from before a step that it had confirmed (R6)."""
        steps = [str(step) for step in _STEPS]
        return known in steps and steps.index(known) < _STEPS.index(self.state)

    async def bring_back(self, bundle: Bundle) -> bool:
        """Let the registry adopt the session, once; True if it's ours there.

        If no answer comes, or another one, the next beat's reply asks again or the kill list says
        why not. A session that the registry has let go of isn't brought back.
        """
        owner = self._owner()
        if self.is_lost or self._settled or not owner.incarnation:
            return False
        state = max(self.state, SessionState.JOINING_ROOM, key=_STEPS.index)
        try:
            word = await bundle.restore(owner, state, self._heartbeat.stamp)
        except StoreUnavailable:
            return False
        _log.info("session_brought_back", session=owner.session_id, epoch=owner.epoch, answer=word)
        self._heartbeat.poke()  # only a beat makes it audible again
        return word == "adopted"

    async def rebase(self, seen_epoch: int) -> None:
        """Go on under an epoch above one that was met in the room, if the session is ours (R5).

        A beat after the meeting must say so first: the other one may be right. Returns when the
        registry has given the epoch, or the kill list has closed the session. Never to be cancelled
        before: calls under the old epoch are fenced once the registry has changed it.
        """
        stamp = self._heartbeat.stamp
        self._heartbeat.poke()
        while not (self.is_lost or self._heartbeat.is_confirmed_after(stamp, self.assignment)):
            await self._pause()
        epoch = await self._ask(
            lambda owner: self._registry.rebase(owner, seen_epoch), is_fenced=_is_none
        )
        if epoch is None or epoch == self.assignment.epoch:
            return
        old, self.assignment = self.assignment, replace(self.assignment, epoch=epoch)
        self._heartbeat.rename(old, self.assignment)
        _log.warning(
            "session_rebased",
            session=old.session_id,
            before=old.epoch,
            seen=seen_epoch,
            epoch=epoch,
        )

    async def note_first_frame(self, ago_s: Callable[[], float]) -> None:
        """Tell that the first frame was played, until that is known; *ago_s* tells how long ago."""
        await self._ask(
            lambda owner: self._registry.note_first_frame(owner, ago_s=ago_s()),
            is_fenced=_says_fenced,
        )

    async def credit(self, lost_s: float) -> None:
        """Put the session's limit off by what losses of its room have taken here, in all."""
        await self._ask(lambda owner: self._registry.credit(owner, lost_s), is_fenced=_says_fenced)

    async def end(self, reason: Reason, error: str | None) -> bool:
        """Confirm that nothing is left of the session; False if it was somebody else's."""
        word = await self._ask(
            lambda owner: self._registry.end(owner, reason, error), is_fenced=_says_fenced
        )
        self._settled = word is not None
        return self._settled

    async def end_once(self, reason: Reason) -> None:
        """Confirm the end of a session that never was here; the kill list asks again if it's
        lost.
        """
        owner = self._owner()
        if owner.incarnation:
            with contextlib.suppress(StoreUnavailable):
                await self._registry.end(owner, reason)

    async def give_back(self, why: str, *, capacity: int, silence: Callable[[], Silence]) -> bool:
        """Return the session to the line; False if it was somebody else's."""
        word = await self._ask(
            lambda owner: self._registry.give_back(
                owner,
                why=why,
                capacity=capacity,
                media_ok=self._heartbeat.report.media_ok,
                silence=silence(),
            ),
            is_fenced=_says_fenced,
        )
        self._settled = word is not None
        return self._settled

    async def _ask(
        self, call: Callable[[Owner], Awaitable[T]], *, is_fenced: Callable[[T], bool]
    ) -> T | None:
        """Repeat *call* until it is answered; None once the claim is lost."""
        while not self.is_lost:
            owner = self._owner()
            if owner.incarnation:  # between two lives nobody speaks
                try:
                    answer = await call(owner)
                    if not is_fenced(answer):
                        return answer
                    self._heartbeat.poke()
                except StoreUnavailable:
                    pass  # the heartbeat logs the outage; this call waits for its end
            await self._pause()
        return None

    async def _pause(self) -> None:
        """Wait a moment, less if the claim is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await self._lost.wait()

    def _owner(self) -> Owner:
        return Owner(
            node_id=self._heartbeat.node_id,
            incarnation=self._heartbeat.incarnation,
            session_id=self.assignment.session_id,
            epoch=self.assignment.epoch,
        )


def _is_none(answer: object) -> bool:
    return answer is None


def _says_fenced(word: str) -> bool:
    return word == "fenced"
