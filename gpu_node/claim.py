"""How does a runner speak for its session in the registry?

Every call quotes the node's present life and the session's epoch, and is repeated until it was
answered: the scripts allow it, and a resident may only leave the node's list once its last call
was.

"Fenced" alone proves little: the registry may just have forgotten this life, and the next one keeps
the session. Only the kill list closes a session (R2). So after such an answer a beat is sent at
once, and the call repeated, until the kill list has said it or the answer is another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gpu_node.heartbeat import Heartbeat
from shared.errors import StoreUnavailable
from shared.records import AdvanceReply, Assignment, Fenced, Owner
from shared.states import Reason, SessionState
from shared.store import Registry

T = TypeVar("T")

_AGAIN_S = 0.3


class Claim:
    """One session's assignment to this node, as the registry is told of it."""

    def __init__(self, registry: Registry, heartbeat: Heartbeat, assignment: Assignment) -> None:
        self._registry = registry
        self._heartbeat = heartbeat
        self.assignment = assignment
        self._lost = asyncio.Event()

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
        reply = await self._ask(
            lambda owner: self._registry.advance(
                owner,
                state,
                stamp=self._heartbeat.stamp,
                pipeline_session_id=pipeline_session_id,
                reason=reason,
            ),
            is_fenced=lambda reply: isinstance(reply, Fenced),
        )
        return reply or Fenced()

    async def note_first_frame(self) -> None:
        """Tell that the first frame was just played; asked once, since a late answer would lie."""
        owner = self._owner()
        if owner.incarnation:
            with contextlib.suppress(StoreUnavailable):
                await self._registry.note_first_frame(owner)

    async def end(self, reason: Reason, error: str | None) -> bool:
        """Confirm that nothing is left of the session; False if it was somebody else's."""
        word = await self._ask(
            lambda owner: self._registry.end(owner, reason, error), is_fenced=_says_fenced
        )
        return word is not None

    async def end_once(self, reason: Reason) -> None:
        """Confirm the end of a session that never was here; the kill list asks again if it's
        lost.
        """
        owner = self._owner()
        if owner.incarnation:
            with contextlib.suppress(StoreUnavailable):
                await self._registry.end(owner, reason)

    async def give_back(self, why: str, *, capacity: int) -> bool:
        """Return the session to the line; False if it was somebody else's."""
        word = await self._ask(
            lambda owner: self._registry.give_back(
                owner, why=why, capacity=capacity, media_ok=self._heartbeat.report.media_ok
            ),
            is_fenced=_says_fenced,
        )
        return word is not None

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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._lost.wait()
        return None

    def _owner(self) -> Owner:
        return Owner(
            node_id=self._heartbeat.node_id,
            incarnation=self._heartbeat.incarnation,
            session_id=self.assignment.session_id,
            epoch=self.assignment.epoch,
        )


def _says_fenced(word: str) -> bool:
    return word == "fenced"
