"""What follows from what LiveKit tells of our rooms?

Only that a replica looks: into the room of whoever came or left, if that may change anything. What
is wrong there is put right by that look, by what Redis and LiveKit say then; so events may come
twice, in any order, late, or never. A worker that nobody wants is out within milliseconds of its
coming, which is before it has published again (R1).
"""

from __future__ import annotations

from enum import StrEnum

import structlog

from control_plane.metrics import Metrics
from control_plane.room_chores import RoomChores
from shared.ids import pool_of
from shared.rooms.tokens import Role
from shared.rooms.webhooks import RoomNews
from shared.store import Registry

_log = structlog.get_logger()

_COMING_AND_GOING = frozenset(("participant_joined", "participant_left"))
_ROOM_IS_GONE = "room_finished"


class Heard(StrEnum):
    """What became of an event."""

    LOOKED = "looked"
    """Somebody looks into the room."""
    REPEATED = "repeated"
    """It was told before."""
    IGNORED = "ignored"
    """It changes nothing, or isn't about a room of ours."""
    REFUSED = "refused"
    """It isn't LiveKit's word."""


class Webhooks:
    """One replica's ear for LiveKit."""

    def __init__(
        self, *, registry: Registry, chores: RoomChores, metrics: Metrics, pools: tuple[str, ...]
    ) -> None:
        self._registry = registry
        self._chores = chores
        self._metrics = metrics
        self._pools = pools

    async def hear(self, news: RoomNews) -> Heard:
        """Do what follows from an event whose signature is good.

        Raises:
            StoreUnavailable: Redis is out; LiveKit tells it again.
        """
        heard = await self._hear(news)
        self._metrics.webhook(heard)
        _log.debug("webhook", event_name=news.event, session=news.session_id, heard=heard)
        return heard

    def refuse(self) -> None:
        """Count an event whose signature is bad."""
        self._metrics.webhook(Heard.REFUSED)

    async def _hear(self, news: RoomNews) -> Heard:
        session_id = news.session_id
        if session_id is None or not _matters(news):
            return Heard.IGNORED
        pool = pool_of(session_id)
        if pool not in self._pools:
            return Heard.IGNORED
        if not await self._registry.hearsay.is_new(pool, news.event_id):
            return Heard.REPEATED
        self._chores.look_into_room(session_id, at_workers=news.role in (None, Role.WORKER))
        return Heard.LOOKED


def _matters(news: RoomNews) -> bool:
    """Viewers only count, where nobody else counts them; who isn't ours isn't anybody."""
    if news.event == _ROOM_IS_GONE:
        return True
    return news.event in _COMING_AND_GOING and news.role is not None
