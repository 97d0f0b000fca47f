"""What has to be done in rooms after a session moved, without holding anybody up?

Deleting the room of an ended session, putting the old worker out of the room of one that went back
to the line, looking for the client of one that waits, looking into a room of which LiveKit told
something. All want LiveKit, which may be slow or gone, so they are only noted down here and done by
a few workers behind. Nothing depends on them: a room that is left over closes by itself when it is
empty, a worker that is left over is put out by its successor, a client that nobody looked for is
looked for again, and so is a room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from control_plane.metrics import Metrics
from control_plane.presence import Presence
from shared.errors import RoomsUnavailable
from shared.lifecycle import Background, repeat
from shared.records import Return
from shared.rooms.admin import RoomAdmin
from shared.states import Reason
from shared.waiting import Suspect

WORKERS = 8
MOST_WAITING = 10_000

_log = structlog.get_logger()


class RoomChores:
    """A bounded list of chores and the workers that do them."""

    def __init__(self, *, rooms: RoomAdmin, presence: Presence, metrics: Metrics) -> None:
        self._rooms = rooms
        self._presence = presence
        self._metrics = metrics
        self._waiting: asyncio.Queue[_Chore] = asyncio.Queue(MOST_WAITING)
        self._workers = Background()
        self._to_look_at: set[tuple[str, bool]] = set()
        """Sessions whose rooms somebody will look into anyway, and whether at workers, too."""

    def start(self) -> None:
        """Begin to work."""
        for number in range(WORKERS):
            name = f"room_chores_{number}"
            self._workers.start(name, repeat(self._do_next, name=name, every_s=0.0))

    async def aclose(self) -> None:
        """Stop; what is left undone closes by itself or is done by another."""
        await self._workers.aclose()

    def delete_room(self, session_id: str) -> None:
        """The session has ended: its room goes."""
        self._note("delete_room", session_id, partial(self._rooms.delete, session_id))

    def announce_return(self, back: Return) -> None:
        """The session is back in line: its old worker goes, and whoever is there is told."""
        self._note("announce_return", back.session_id, partial(self._presence.announce, back))

    def look_into_room(self, session_id: str, *, at_workers: bool = True) -> None:
        """Something may be wrong in the room: put it right. Asked for again before that, it's
        once.
        """
        look = (session_id, at_workers)
        if look not in self._to_look_at and self._note(
            "look_into_room", session_id, partial(self._look_into_room, *look)
        ):
            self._to_look_at.add(look)

    def look_for_client(self, suspect: Suspect) -> None:
        """The client of a waiting session is silent: if it isn't in its room, either, it left."""
        self._note("look_for_client", suspect.session_id, partial(self._settle, suspect))

    def _note(self, name: str, session_id: str, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            self._waiting.put_nowait(_Chore(name=name, session_id=session_id, work=work))
        except asyncio.QueueFull:
            self._metrics.room_chore(name, "dropped")
            return False
        return True

    async def _do_next(self) -> None:
        chore = await self._waiting.get()
        try:
            await chore.work()
        except RoomsUnavailable as fault:
            self._metrics.room_chore(chore.name, "failed")
            _log.warning(
                "room_chore_failed", chore=chore.name, session=chore.session_id, why=str(fault)
            )
        else:
            self._metrics.room_chore(chore.name, "done")

    async def _settle(self, suspect: Suspect) -> None:
        if await self._presence.settle(suspect):
            reason = Reason.QUEUE_ABANDONED
            _log.info("session_ended", session=suspect.session_id, reason=reason)
            await self._rooms.delete(suspect.session_id)

    async def _look_into_room(self, session_id: str, at_workers: bool) -> None:
        self._to_look_at.discard((session_id, at_workers))  # first: what is told from now on counts
        await self._presence.look(session_id, at_workers=at_workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chore:
    name: str
    session_id: str
    work: Callable[[], Awaitable[None]]
