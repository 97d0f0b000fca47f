"""How does a session leave a node?

The same winding-up whatever ended it: no more controls, silence or a last word, the pipeline
session closed, the room left, the registry told. Only a confirmed clean-up is told: a service that
won't close keeps the session in the node's list, which is what holds its slot back (R9).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import assert_never

import structlog

from gpu_node import metrics
from gpu_node.backstage import Backstage
from gpu_node.claim import Claim
from gpu_node.dialogue import Dialogue
from gpu_node.stage import Stage
from shared.errors import RoomsUnavailable
from shared.records import Assignment, EndedHere, MustStop
from shared.room_status import Status, StatusWriter
from shared.silence import NO_SILENCE, Silence
from shared.states import Reason, SessionState

_log = structlog.get_logger()

_SAY_WITHIN_S = 1.0
_ARRIVES_WITHIN_S = 2.0
"""For so long a room outlives its session, whose slot is free by then: whoever is put out doesn't
hear what is still on its way, and a data channel sends what was lost again after a second."""
_TELL_WITHIN_S = 1.5
"""How long the end waits for the registry before it goes on without."""
_LEAVE_AFTER_S = 5.0
"""The room is left even if the pipeline session isn't closed by then."""
CLEANUP_WITHIN_S = 30.0
_PLANNED = frozenset(("node_shutdown", "node_drained"))
"""An operator wants it: all is well here, the room can be told."""
_TOLD = _PLANNED | {"gpu_lost"}
"""The node itself is sound, and the room can be told at once."""
_NO_SLOT_LEFT = frozenset(("node_shutdown", "gpu_lost"))
"""The node takes nothing new, so nobody need wait for its clean-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The session is over."""

    reason: Reason
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """The session returns to the line; *why* is one of the registry's words for it."""

    why: str


@dataclass(frozen=True, slots=True)
class Vanish:
    """The session is somebody else's: clean up and say nothing."""


Verdict = End | GiveBack | Vanish


@dataclass(slots=True, kw_only=True)
class Holdings:
    """What a node holds of one session. The runner fills it, the ending lets go of it."""

    stage: Stage | None = None
    dialogue: Dialogue | None = None
    creation: asyncio.Task[str] | None = None
    """Never cancelled: a pipeline session that comes into being must be closed."""
    stuck: bool = False
    """The clean-up takes longer than it may; the session stays listed until it's through."""

    def silence(self) -> Silence:
        """For how long by now nothing of it could be seen or heard."""
        if self.stage is None:
            return NO_SILENCE
        return Silence(unplayed_s=self.stage.unheard_s, earlier_s=self.stage.lost_s)

    def silent_s(self) -> float:
        """For how long the session was silent here, in all."""
        return 0.0 if self.stage is None else self.stage.silent_s


class Ending:
    """Lets go of one session."""

    def __init__(
        self, backstage: Backstage, claim: Claim, status: StatusWriter, holdings: Holdings
    ) -> None:
        self._backstage = backstage
        self._claim = claim
        self._status = status
        self._holdings = holdings
        self._closing: asyncio.Task[None] | None = None
        assignment = claim.assignment
        self._log = _log.bind(session=assignment.session_id, epoch=assignment.epoch)

    async def carry_out(self, verdict: Verdict) -> None:
        """Return when nothing is left that can be let go of, and the registry knows it."""
        if self._holdings.dialogue is not None:
            await self._holdings.dialogue.aclose()
        if self._holdings.stage is not None:
            self._holdings.stage.stay_out()
        match verdict:
            case End():
                await self._end(verdict)
            case GiveBack():
                await self._return(verdict)
            case Vanish():
                await self._vanish()
            case _:
                assert_never(verdict)

    async def _end(self, verdict: End) -> None:
        verdict = await self._announce(verdict)
        closing = self._start_closing()
        if verdict.error is not None:
            await self._tell(self._status.error(verdict.error, verdict.reason))
        await self._tell(self._status.draining(verdict.reason))
        await asyncio.wait({closing}, timeout=_LEAVE_AFTER_S)
        await self._tell(self._status.closed(verdict.reason))
        await self._leave()
        if not await self._is_clean():
            return
        if await self._claim.end(verdict.reason, verdict.error):
            metrics.ended(verdict.reason)
            self._log.info("session_ended", reason=verdict.reason, error=verdict.error)
            self._unlist(_ended(self._claim.assignment, verdict.reason))
            await asyncio.sleep(_ARRIVES_WITHIN_S)
            await self._delete_room()
        else:
            self._unlist()

    async def _announce(self, verdict: End) -> End:
        """Tell the registry that it ends; a reason that it has already stays."""
        telling = asyncio.create_task(
            self._claim.advance(SessionState.DRAINING, reason=verdict.reason),
            name=f"announce end {self._claim.assignment.session_id}",
        )
        await asyncio.wait({telling}, timeout=_TELL_WITHIN_S)
        if not telling.done():
            telling.cancel()  # `end` will say it, however late
        elif (error := telling.exception()) is not None:
            self._log.error("end_not_announced", exc_info=error)
        elif isinstance(reply := telling.result(), MustStop):
            reason = reason_of(reply.reason)
            verdict = End(reason=reason, error=verdict.error if reason is verdict.reason else None)
        return verdict

    async def _return(self, verdict: GiveBack) -> None:
        if verdict.why in _TOLD:
            await self._tell(self._status.requeued(verdict.why))
        await self._leave()
        closing = self._start_closing()
        if verdict.why not in _TOLD:
            await asyncio.wait({closing}, timeout=CLEANUP_WITHIN_S)
            if not closing.done() or closing.exception() is not None:
                # The slot can't go on, so neither can the session: the registry quarantines it.
                await self._end(End(reason=Reason.LIVEKIT_ERROR, error="The room was lost."))
                return
        leaves = verdict.why in _NO_SLOT_LEFT
        capacity = 0 if leaves else self._backstage.heartbeat.report.capacity
        if await self._claim.give_back(
            verdict.why, capacity=capacity, silence=self._holdings.silence
        ):
            metrics.returned(verdict.why)
            self._log.info("session_given_back", why=verdict.why)
        if verdict.why != "node_drained":
            self._unlist()
            await self._is_clean()
        elif await self._is_clean():  # till then it's listed: the node may be resumed any time
            self._unlist()

    async def _tell(self, body: Status) -> None:
        """Say one of the last things that the room hears from here, before the worker leaves it.

        All of them one way, or they might overtake each other: through the media server, since what
        a worker says in the moment before it leaves may get lost with it (measured), by the worker
        if that fails; and only while it may be heard (R2).
        """
        stage, session_id = self._holdings.stage, self._claim.assignment.session_id
        if stage is None or not stage.check():
            return
        said = self._backstage.keeper.send_status(session_id, body)
        try:
            async with asyncio.timeout(_SAY_WITHIN_S):
                await said
        except (RoomsUnavailable, TimeoutError) as fault:
            self._log.warning("told_by_the_worker", why=str(fault), what=body.get("type"))
            stage.say(body)
            await stage.flush(_SAY_WITHIN_S)

    async def _vanish(self) -> None:
        metrics.fenced()
        await self._leave()
        if await self._is_clean():
            self._log.info("session_cleaned")
            self._unlist()

    async def _leave(self) -> None:
        if self._holdings.stage is not None:
            await self._holdings.stage.leave()

    def _unlist(self, ended: EndedHere | None = None) -> None:
        self._backstage.heartbeat.unlist(self._claim.assignment, ended)

    def _start_closing(self) -> asyncio.Task[None]:
        """Begin to close the pipeline session, once."""
        if self._closing is None:
            self._closing = asyncio.create_task(
                self._close_pipeline(), name=f"close {self._claim.assignment.session_id}"
            )
        return self._closing

    async def _close_pipeline(self) -> None:
        """Close the pipeline session, if there is or comes to be one; raises `ServiceFault`."""
        creation = self._holdings.creation
        if creation is None:
            return
        await asyncio.wait({creation})
        if creation.exception() is None:
            await self._backstage.host.close_session(creation.result())

    async def _is_clean(self) -> bool:
        """Wait for the clean-up, however long it takes; False if the service failed at it."""
        closing = self._start_closing()
        await asyncio.wait({closing}, timeout=CLEANUP_WITHIN_S)
        if not closing.done():
            self._log.error("cleanup_overdue", after_s=CLEANUP_WITHIN_S)
            self._mark_stuck(stuck=True)
            await asyncio.wait({closing})
            self._mark_stuck(stuck=False)
        error = closing.exception()
        if error is not None:
            self._log.error("cleanup_failed", error=str(error))
            self._mark_stuck(stuck=True)
        return error is None

    def _mark_stuck(self, *, stuck: bool) -> None:
        self._holdings.stuck = stuck
        metrics.cleanup_overdue(1 if stuck else -1)

    async def _delete_room(self) -> None:
        try:
            await self._backstage.keeper.delete(self._claim.assignment.session_id)
        except RoomsUnavailable as error:
            self._log.warning("room_not_deleted", why=str(error))


def reason_of(word: str) -> Reason:
    """Return the reason that a kill list or a stop named; a newer release may know more of them."""
    try:
        return Reason(word)
    except ValueError:
        return Reason.ADMIN


def _ended(assignment: Assignment, reason: Reason) -> EndedHere:
    return EndedHere(session_id=assignment.session_id, epoch=assignment.epoch, reason=reason)
