"""How is a room made sure of, looked at, cleaned, deleted?

Thin over LiveKit's room service. Every call is bounded by three seconds and raises
`RoomsUnavailable` for whatever goes wrong on the way; that a room or participant isn't there (any
more) is no error, since all callers only want it gone. Nothing here is on the path of a POST.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import structlog
from livekit import api
from livekit.api.room_service import RoomService

from shared.errors import RoomsUnavailable
from shared.facts import RoomFacts
from shared.ids import room_of, session_of_room
from shared.room_status import STATUS_TOPIC, encode_status
from shared.rooms.tokens import (
    DEPARTURE_TIMEOUT_S,
    EMPTY_TIMEOUT_S,
    SEEN_ATTRIBUTE,
    Role,
    known_of,
    order_of,
    redact,
    role_of,
    room_metadata,
    service_token,
)

_log = structlog.get_logger()

CALL_TIMEOUT_S = 3.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant:
    """One participant as the media server lists it."""

    sid: str
    identity: str
    role: Role | None
    order: tuple[int, int] | None
    """(epoch, attempt) of a worker, as its token says."""


class RoomAdmin:
    """Looks after the rooms of one deployment. Make and use it inside one event loop."""

    def __init__(self, url: str, api_key: str, api_secret: str, deployment_id: str) -> None:
        self._url = url
        self._api_key = api_key
        self._api_secret = api_secret
        self._deployment_id = deployment_id
        self._session: aiohttp.ClientSession | None = None
        self._trouble = ""
        """What the latest probe met; empty while all is well."""

    async def ensure(self, session_id: str, epoch: int) -> None:
        """Make sure that the room is there and that its metadata names *epoch*."""
        room, metadata = room_of(session_id), room_metadata(self._deployment_id, epoch)
        made = await self._call(
            self._rooms().create_room(
                api.CreateRoomRequest(
                    name=room,
                    empty_timeout=EMPTY_TIMEOUT_S,
                    departure_timeout=DEPARTURE_TIMEOUT_S,
                    metadata=metadata,
                )
            )
        )
        if made.metadata != metadata:
            update = api.UpdateRoomMetadataRequest(room=room, metadata=metadata)
            await self._call(self._rooms().update_room_metadata(update))

    async def delete(self, session_id: str) -> None:
        """Delete the room; everybody in it is put out. An unknown room is fine."""
        request = api.DeleteRoomRequest(room=room_of(session_id))
        await self._unless_missing(self._rooms().delete_room(request))

    async def rooms(self) -> tuple[RoomFacts, ...]:
        """Return the rooms of our deployment; those of others are left out."""
        listed = await self._call(self._rooms().list_rooms(api.ListRoomsRequest()))
        found = []
        for room in listed.rooms:
            session_id, whose = session_of_room(room.name), known_of(room.metadata)
            if session_id is not None and whose.get("deployment") == self._deployment_id:
                epoch = whose.get("epoch")
                found.append(
                    RoomFacts(
                        session_id=session_id,
                        epoch=epoch if isinstance(epoch, int) else None,
                        participants=room.num_participants,
                        publishers=room.num_publishers,
                        made_at_s=room.creation_time,
                    )
                )
        return tuple(found)

    async def participants(self, session_id: str) -> tuple[RoomParticipant, ...]:
        """Return who is in the room; nobody if there's no such room."""
        request = api.ListParticipantsRequest(room=room_of(session_id))
        listed = await self._unless_missing(self._rooms().list_participants(request))
        if listed is None:
            return ()
        return tuple(
            RoomParticipant(
                sid=one.sid,
                identity=one.identity,
                role=role_of(one.attributes),
                order=order_of(one.attributes),
            )
            for one in listed.participants
        )

    async def announce(self, session_id: str, identity: str) -> None:
        """Have everybody in the room told at once that this participant is there.

        LiveKit batches news of participants without tracks for up to three seconds (measured), and
        until it has come, their data arrives without a sender. Any change by the API goes out at
        once (4 ms), so a mark is set on the participant.
        """
        request = api.UpdateParticipantRequest(
            room=room_of(session_id), identity=identity, attributes={SEEN_ATTRIBUTE: "1"}
        )
        await self._unless_missing(self._rooms().update_participant(request))

    async def let_speak(self, session_id: str, identity: str) -> None:
        """Let a controller send its microphone, whatever its token says; nobody else may."""
        permission = api.ParticipantPermission(
            can_subscribe=True,
            can_publish=True,
            can_publish_data=True,
            can_publish_sources=[api.TrackSource.MICROPHONE],
        )
        await self._unless_missing(
            self._rooms().update_participant(
                api.UpdateParticipantRequest(
                    room=room_of(session_id), identity=identity, permission=permission
                )
            )
        )

    async def remove(self, session_id: str, identity: str) -> None:
        """Put one participant out. Its token still lets it in again: see R1."""
        request = api.RoomParticipantIdentity(room=room_of(session_id), identity=identity)
        await self._unless_missing(self._rooms().remove_participant(request))

    async def remove_older_workers(
        self, session_id: str, order: tuple[int, int], present: Iterable[RoomParticipant]
    ) -> tuple[str, ...]:
        """Put out each worker among *present* of lower (epoch, attempt) than *order*.

        Returns:
            Their identities.
        """
        older = tuple(
            one.identity
            for one in present
            if one.role is Role.WORKER and (one.order or (0, 0)) < order
        )
        for identity in older:
            await self.remove(session_id, identity)
        return older

    async def send_status(self, session_id: str, body: Mapping[str, object]) -> None:
        """Say *body* to all in the room on ``tf.status``; nobody there is fine.

        Looks first who is there: for a room that doesn't exist the server takes three seconds to
        answer, and answers as if it were out itself (measured).
        """
        if not await self.participants(session_id):
            return
        request = api.SendDataRequest(
            room=room_of(session_id),
            data=encode_status(body),
            kind=api.DataPacket.Kind.RELIABLE,
            topic=STATUS_TOPIC,
        )
        await self._unless_missing(self._rooms().send_data(request))

    async def probe(self) -> bool:
        """Whether the media server answers us, keys included; what it is instead is logged once."""
        try:
            await self._call(self._rooms().list_rooms(api.ListRoomsRequest(names=["probe"])))
        except RoomsUnavailable as unavailable:
            trouble = str(unavailable)
        else:
            trouble = ""
        if trouble and trouble != self._trouble:
            _log.warning("rooms_unavailable", why=trouble)
        self._trouble = trouble
        return not trouble

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _rooms(self) -> RoomService:
        # Made at the first call: aiohttp's session belongs to the loop that runs then.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
            )
        return _RoomCalls(self._session, self._url, self._api_key, self._api_secret, failover=False)

    async def _call(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await call
        except api.ServerError as refused:
            raise RoomsUnavailable(why=_why(refused)) from refused
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise RoomsUnavailable(why=redact(str(fault) or type(fault).__name__)) from fault

    async def _unless_missing(self, call: Awaitable[T]) -> T | None:
        try:
            return await self._call(call)
        except RoomsUnavailable as unavailable:
            cause = unavailable.__cause__
            if isinstance(cause, api.ServerError) and cause.code == api.ServerErrorCode.NOT_FOUND:
                return None
            raise


class _RoomCalls(RoomService):
    """LiveKit's room service, called with tokens of our own: the SDK's count from this machine's
    now on, and a media server whose clock is more than a minute behind refuses them.
    """

    def _auth_header(
        self, grants: api.VideoGrants | None, _sip: api.SIPGrants | None = None
    ) -> dict[str, str]:
        signed = api.AccessToken(self.api_key, self.api_secret)
        if grants is not None:
            signed.with_grants(grants)
        video = signed.claims.asdict().get("video", {})
        return {"authorization": f"Bearer {service_token(self.api_key, self.api_secret, video)}"}


def _why(refused: api.ServerError) -> str:
    if refused.status == HTTPStatus.UNAUTHORIZED:
        return "LiveKit doesn't take the API key and secret"
    return redact(f"status {refused.status}, {refused.code}: {refused.message}")
