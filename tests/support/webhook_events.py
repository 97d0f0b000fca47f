"""How does a test tell a replica something as LiveKit does?

Bodies and signatures are as those of the real server, with what we read of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from datetime import timedelta

import httpx
from livekit import api

from shared.ids import WorkerIdentity, room_of
from shared.rooms.tokens import (
    ATTEMPT_ATTRIBUTE,
    EPOCH_ATTRIBUTE,
    ROLE_ATTRIBUTE,
    Role,
    room_metadata,
)
from tests.support.replica import API_KEY, API_SECRET

WEBHOOK = "/v1/livekit/webhook"
OURS = room_metadata("test")


def event(
    what: str,
    session_id: str,
    who: WorkerIdentity | Role | None = None,
    *,
    metadata: str = OURS,
    room: str = "",
) -> bytes:
    """Return the body of one event, about a worker, another participant, or nobody."""
    told: dict[str, object] = {
        "event": what,
        "room": {"sid": "RM_1", "name": room or room_of(session_id), "metadata": metadata},
        "id": f"EV_{secrets.token_hex(6)}",
        "createdAt": "1796058956",
    }
    if isinstance(who, WorkerIdentity):
        attributes = {
            ROLE_ATTRIBUTE: "worker",
            EPOCH_ATTRIBUTE: str(who.epoch),
            ATTEMPT_ATTRIBUTE: str(who.attempt),
        }
        told["participant"] = {"identity": str(who), "attributes": attributes}
    elif who is not None:
        told["participant"] = {"identity": str(who), "attributes": {ROLE_ATTRIBUTE: str(who)}}
    return json.dumps(told).encode()


def signature(
    body: bytes, *, key: str = API_KEY, secret: str = API_SECRET, ttl_s: float = 300.0
) -> str:
    """Return what LiveKit puts into the header ``Authorization`` for this body."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    token = api.AccessToken(key, secret).with_sha256(digest).with_ttl(timedelta(seconds=ttl_s))
    return token.to_jwt()


async def tell(client: httpx.AsyncClient, body: bytes, authorization: str = "") -> httpx.Response:
    """Post one event, signed unless the test has another signature."""
    headers = {
        "authorization": authorization or signature(body),
        "content-type": "application/webhook+json",
    }
    return await client.post(WEBHOOK, content=body, headers=headers)
