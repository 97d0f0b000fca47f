"""Who is in a room, and what follows from it for a session that nobody plays right now?

The waiting lease (R10): asking for the session, following its events, and being in its room are
signs of life. When the first two stay out, the registry hands the session to whoever swept, and
that replica looks into the room: the controller is there, so the lease begins anew; nobody is, so
the place is given up. A media server that can't be asked proves nothing, and the lease begins anew.

A look into one room puts right all that is wrong there, whatever was the reason to look: workers of
earlier assignments are put out (R1), the room of a session that has ended goes, people are counted
while no worker is there to do it, and whoever waits there again is told so, in case the replica
that found its node dead couldn't.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

import structlog

from shared.errors import RoomsUnavailable, UnknownSession
from shared.records import Return, SessionRecord
from shared.room_status import StatusWriter
from shared.rooms.admin import RoomAdmin, RoomParticipant
from shared.rooms.tokens import Role
from shared.states import SessionState
from shared.store import Registry
from shared.waiting import Suspect

_TOLD_KEPT = 4096
_WITHOUT_A_WORKER = frozenset((SessionState.QUEUED, SessionState.ASSIGNED))
"""Nobody else counts who is in the room."""

_log = structlog.get_logger()


class Presence:
    """Looks into rooms on behalf of one replica."""

    def __init__(self, *, rooms: RoomAdmin, registry: Registry) -> None:
        self._rooms = rooms
        self._registry = registry
        self._told: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Returns, by session and epoch, of which this replica has told the room."""

    async def settle(self, suspect: Suspect) -> bool:
        """Look into the room of *suspect*; returns whether its place was given up.

        Raises:
            StoreUnavailable: Redis is out; somebody will be asked again.
        """
        present = await self._is_there(suspect.session_id)
        settled = await self._registry.settle_waiting(suspect, present=present)
        return settled == "abandoned"

    async def announce(self, back: Return) -> None:
        """The session is back in line: its old workers go, and whoever is there is told, once.

        Raises:
            RoomsUnavailable: LiveKit doesn't answer.
        """
        present = await self._rooms.participants(back.session_id)
        await self._remove_older(back.session_id, back.epoch, present)
        if present:
            await self._tell(back)

    async def look(self, session_id: str, *, at_workers: bool = True) -> None:
        """Put right what is wrong in this room; a session that nobody knows is left alone (R3).

        Args:
            session_id: Whose room.
            at_workers: False: somebody else came or left, which is the worker's business if one
                is there.

        Raises:
            RoomsUnavailable: LiveKit doesn't answer.
            StoreUnavailable: Redis doesn't.
        """
        try:
            record = await self._registry.read(session_id)
        except UnknownSession:
            return
        if record.ended:
            await self._rooms.delete(session_id)
            return
        is_unattended = record.state in _WITHOUT_A_WORKER
        if not (at_workers or is_unattended):
            return
        present = await self._rooms.participants(session_id)
        await self._remove_older(session_id, record.epoch, present)
        if is_unattended:
            await self._look_after(record, present)

    async def _look_after(
        self, record: SessionRecord, present: tuple[RoomParticipant, ...]
    ) -> None:
        """Do what a worker would do for those who are there; all of it may come a moment late."""
        people = _people(present)
        if people != record.participants:
            await self._registry.count_people(record, people)
        if record.state is not SessionState.QUEUED or not present:
            return
        if _has_controller(present):
            await self._registry.touch((record.session_id,))
        if record.returned_because:
            await self._tell(_return_of(record))

    async def _is_there(self, session_id: str) -> bool:
        try:
            return _has_controller(await self._rooms.participants(session_id))
        except RoomsUnavailable as unavailable:
            _log.info("presence_unknown", session=session_id, why=str(unavailable))
            return True

    async def _remove_older(
        self, session_id: str, epoch: int, present: Iterable[RoomParticipant]
    ) -> None:
        """Put out the workers of assignments before *epoch*; a later one knows more than we do."""
        older = await self._rooms.remove_older_workers(session_id, (epoch, 0), present)
        if older:
            _log.warning("workers_removed", session=session_id, workers=older)

    async def _tell(self, back: Return) -> None:
        told = (back.session_id, back.epoch)
        if told in self._told:
            return
        self._told[told] = None  # before the wait: another look may be at the same place
        if len(self._told) > _TOLD_KEPT:
            self._told.popitem(last=False)
        status = StatusWriter(session_id=back.session_id, now_s=time.time)
        try:
            await self._rooms.send_status(back.session_id, status.requeued(back.why))
        except RoomsUnavailable:
            self._told.pop(told, None)  # the next look tells it
            raise


def _people(present: Iterable[RoomParticipant]) -> int:
    """Count humans; one who is there twice during a reload counts once."""
    return len({one.identity for one in present if one.role is not Role.WORKER})


def _has_controller(present: Iterable[RoomParticipant]) -> bool:
    return any(one.role is Role.CONTROLLER for one in present)


def _return_of(record: SessionRecord) -> Return:
    why = record.returned_because or ""
    return Return(session_id=record.session_id, epoch=record.epoch, why=why)
