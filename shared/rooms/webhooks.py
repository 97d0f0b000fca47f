"""What does LiveKit tell of a room, and is it LiveKit that tells it?

Its webhooks are signed with the API key and carry a digest of their body. They come within
milliseconds, but may come twice, late, out of order or not at all, so nothing is concluded from
what one says: it names the room that is worth a look.
"""

from __future__ import annotations

from dataclasses import dataclass

from livekit import api

from shared.errors import BadWebhook
from shared.ids import session_of_room
from shared.lifecycle import call_foreign
from shared.rooms.tokens import Role, known_of, role_of

WEBHOOK_PATH = "/v1/livekit/webhook"
"""Where a replica hears them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomNews:
    """One event, as far as we care."""

    event_id: str
    event: str
    """LiveKit's word: participant_joined, participant_left, room_finished, …"""
    session_id: str | None
    """Whose room it is; None: not one of ours."""
    role: Role | None
    """Of the participant that it's about, if any."""


class WebhookReader:
    """Checks and reads what is sent to us as LiveKit's word."""

    def __init__(self, api_key: str, api_secret: str, deployment_id: str) -> None:
        self._receiver = api.WebhookReceiver(api.TokenVerifier(api_key, api_secret))
        self._deployment_id = deployment_id

    def read(self, body: bytes, authorization: str) -> RoomNews:
        """Return what is told.

        Raises:
            BadWebhook: It isn't signed with our key, not for this body, or too old.
        """
        told = call_foreign(
            lambda: self._receiver.receive(body.decode(), authorization),
            lambda _error: BadWebhook(),
        )
        is_ours = known_of(told.room.metadata).get("deployment") == self._deployment_id
        return RoomNews(
            event_id=told.id,
            event=told.event,
            session_id=session_of_room(told.room.name) if is_ours else None,
            role=role_of(told.participant.attributes),
        )
