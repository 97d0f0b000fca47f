"""How is an answer filled in, and which tokens does the client get in hand?"""

from __future__ import annotations

import json

from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from control_plane.api.bodies import SessionCreated, SessionStatus, TokenCreated
from control_plane.estimates import Estimate
from control_plane.session_tokens import SessionTokens
from shared.ids import room_of
from shared.records import SessionRecord
from shared.rooms.tokens import Role, RoomTokens


class Answers:
    """Turns records into answers; the only place of the API that mints tokens."""

    def __init__(
        self, *, room_tokens: RoomTokens, session_tokens: SessionTokens, livekit_url: str
    ) -> None:
        self._room_tokens = room_tokens
        self._session_tokens = session_tokens
        self._livekit_url = livekit_url

    def created(
        self, record: SessionRecord, *, replay: bool, estimate: Estimate | None = None
    ) -> SessionCreated:
        """What the one who created *record* gets; no room token once it has ended."""
        session_id = record.session_id
        token = None
        if not record.ended:
            token = self._room_tokens.controller(session_id, record.identity)
        return {
            "session_id": session_id,
            "room": room_of(session_id),
            "livekit_url": self._livekit_url,
            "token": token,
            "worker_id": record.node_id,
            "status": record.state.value,  # as a plain str it is written three times as fast
            "expires_at": record.expires_at_s,
            "queue_position": record.position,
            "estimated_wait_s": estimate.middle_s if estimate else None,
            "estimated_wait_range_s": estimate.range_s if estimate else None,
            "session_token": self._session_tokens.sign(session_id),
            "idempotent_replay": replay,
        }

    def status(self, record: SessionRecord, estimate: Estimate | None = None) -> SessionStatus:
        """What anybody who knows the session's id may see of it."""
        return {
            "session_id": record.session_id,
            "room": room_of(record.session_id),
            "livekit_url": self._livekit_url,
            "status": record.state.value,
            "worker_id": record.node_id,
            "node_id": record.node_id,
            "pipeline_session_id": record.pipeline_session_id,
            "created_at": record.created_at_s,
            "updated_at": record.updated_at_s,
            "expires_at": record.expires_at_s,
            "participant_count": 0 if record.ended else record.participants,
            "error": record.error,
            "reason": record.reason,
            "queue_position": record.position,
            "estimated_wait_s": estimate.middle_s if estimate else None,
            "estimated_wait_range_s": estimate.range_s if estimate else None,
            "attempt": record.attempt,
            "epoch": record.epoch,
        }

    def viewer(self, record: SessionRecord, identity: str) -> TokenCreated:
        """A token to watch *record* as *identity*."""
        token = self._room_tokens.viewer(record.session_id, identity)
        return self._token(record, token, Role.VIEWER)

    def controller(self, record: SessionRecord) -> TokenCreated:
        """A fresh token for the controller of *record*."""
        token = self._room_tokens.controller(record.session_id, record.identity)
        return self._token(record, token, Role.CONTROLLER)

    def _token(self, record: SessionRecord, token: str, role: Role) -> TokenCreated:
        return {
            "session_id": record.session_id,
            "room": room_of(record.session_id),
            "livekit_url": self._livekit_url,
            "token": token,
            "role": role,
        }


def json_answer(body: object, status: int = 200) -> Response:
    """Return *body* as it is: it was built here, so nothing needs to be checked again."""
    try:
        return _Json(to_json(body), status)
    except PydanticSerializationError:  # half a character of somebody's text can only be escaped
        return _Json(_escape(body).encode(), status)


_escape = json.JSONEncoder(separators=(",", ":")).encode


class _Json(Response):
    """An answer whose head is known: all that the framework's own one works out is left out."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON]


_JSON = (b"content-type", b"application/json")
