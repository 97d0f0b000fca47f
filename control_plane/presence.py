"""Who is in the room, and what follows when a waiting client is neither there nor heard of?

The waiting lease (R10): asking for the session, following its events, and being in its room are
signs of life. When the first two stay out, the registry hands the session to whoever swept, and
that replica looks into the room: the controller is there, so the lease begins anew; nobody is, so
the place is given up. A media server that can't be asked proves nothing, and the lease begins anew.
"""

from __future__ import annotations

import structlog

from shared.errors import RoomsUnavailable
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import Role
from shared.store import Registry
from shared.waiting import Suspect

_log = structlog.get_logger()


class Presence:
    """Looks for silent clients of waiting sessions."""

    def __init__(self, *, rooms: RoomAdmin, registry: Registry) -> None:
        self._rooms = rooms
        self._registry = registry

    async def settle(self, suspect: Suspect) -> bool:
        """Look into the room of *suspect*; returns whether its place was given up.

        Raises:
            StoreUnavailable: Redis is out; somebody will be asked again.
        """
        present = await self._is_there(suspect.session_id)
        settled = await self._registry.settle_waiting(suspect, present=present)
        return settled == "abandoned"

    async def _is_there(self, session_id: str) -> bool:
        try:
            listed = await self._rooms.participants(session_id)
        except RoomsUnavailable as unavailable:
            _log.info("presence_unknown", session=session_id, why=str(unavailable))
            return True
        return any(one.role is Role.CONTROLLER for one in listed)
