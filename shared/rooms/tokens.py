"""What may this identity do in the room?

A LiveKit token says it, signed with the API secret: HS256 over compact JSON, made here by hand with
a header computed once, since admission mints two tokens on its fast path (a test compares every
claim with livekit's own AccessToken). Being a worker is a signed participant attribute, never a
name: ``gr.role``, and for workers ``gr.epoch`` and ``gr.attempt``, which say which of two is newer.

No LiveKit call is needed before somebody joins: each token carries the room's configuration, which
counts when that join makes the room.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from enum import StrEnum

from pydantic_core import to_json

from shared.ids import WorkerIdentity, room_of
from shared.signing import Signer

ROLE_ATTRIBUTE = "gr.role"
EPOCH_ATTRIBUTE = "gr.epoch"
ATTEMPT_ATTRIBUTE = "gr.attempt"
SEEN_ATTRIBUTE = "gr.seen"

EMPTY_TIMEOUT_S = 120
"""How long LiveKit keeps a room that nobody joined."""
DEPARTURE_TIMEOUT_S = 120
"""How long LiveKit keeps a room after the last one left; above every grace of ours."""
CLOCK_LEEWAY_S = 86_400
"""Tokens count from a day earlier, and those that no client gets a day longer: the clocks of a node
and of the media server may differ by hours, and LiveKit itself bears one minute."""

_SOURCES = {"audio": "microphone", "video": "camera"}


class Role(StrEnum):
    """What somebody in a room is."""

    CONTROLLER = "controller"
    VIEWER = "viewer"
    WORKER = "worker"


def role_of(attributes: Mapping[str, str]) -> Role | None:
    """Return the signed role, or None for somebody whose token isn't ours."""
    try:
        return Role(attributes.get(ROLE_ATTRIBUTE, ""))
    except ValueError:
        return None


def order_of(attributes: Mapping[str, str]) -> tuple[int, int] | None:
    """Return a worker's signed (epoch, attempt), or None if this is no worker of ours."""
    if role_of(attributes) is not Role.WORKER:
        return None
    try:
        return (int(attributes[EPOCH_ATTRIBUTE]), int(attributes[ATTEMPT_ATTRIBUTE]))
    except (KeyError, ValueError):
        return None


def room_metadata(deployment_id: str, epoch: int | None = None) -> str:
    """Return the metadata of our rooms: whose they are and, once assigned, the current epoch."""
    known: dict[str, object] = {"deployment": deployment_id}
    if epoch is not None:
        known["epoch"] = epoch
    return json.dumps(known, separators=(",", ":"))


def known_of(metadata: str) -> Mapping[str, object]:
    """Return what a room's metadata says; nothing for a foreign room."""
    try:
        known = json.loads(metadata)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


class RoomTokens:
    """Signs LiveKit tokens for one deployment; holds the secret, so it never prints itself."""

    def __init__(self, api_key: str, api_secret: str, ttl_s: int, deployment_id: str) -> None:
        self._api_key = api_key
        self._signer = Signer(api_secret.encode())
        self._ttl_s = ttl_s
        self._room_config = {
            "emptyTimeout": EMPTY_TIMEOUT_S,
            "departureTimeout": DEPARTURE_TIMEOUT_S,
            "metadata": room_metadata(deployment_id),
        }

    def controller(self, session_id: str, identity: str, *, inputs: tuple[str, ...] = ()) -> str:
        """Return a token to watch and control, and to send the *inputs* ("audio", "video")."""
        sources = [_SOURCES[kind] for kind in ("video", "audio") if kind in inputs]
        grants: dict[str, object] = {
            "canPublish": bool(sources),
            "canSubscribe": True,
            "canPublishData": True,
        }
        if sources:
            grants["canPublishSources"] = sources
        return self._sign(session_id, identity, grants, {ROLE_ATTRIBUTE: Role.CONTROLLER.value})

    def viewer(self, session_id: str, identity: str) -> str:
        """Return a token to watch and nothing else."""
        grants: dict[str, object] = {
            "canPublish": False,
            "canSubscribe": True,
            "canPublishData": False,
        }
        return self._sign(session_id, identity, grants, {ROLE_ATTRIBUTE: Role.VIEWER.value})

    def worker(self, session_id: str, identity: WorkerIdentity, *, hears: bool = False) -> str:
        """Return a token to play video and sound and to speak on the data topics; and to hear the
        controller, if the service *hears*.
        """
        grants: dict[str, object] = {
            "canPublish": True,
            "canSubscribe": hears,
            "canPublishData": True,
            "canPublishSources": ["camera", "microphone"],
        }
        attributes = {
            ROLE_ATTRIBUTE: str(Role.WORKER),
            EPOCH_ATTRIBUTE: str(identity.epoch),
            ATTEMPT_ATTRIBUTE: str(identity.attempt),
        }
        return self._sign(session_id, str(identity), grants, attributes, CLOCK_LEEWAY_S)

    def _sign(
        self,
        session_id: str,
        identity: str,
        grants: dict[str, object],
        attributes: dict[str, str],
        longer_s: int = 0,
    ) -> str:
        claims = {
            "iss": self._api_key,
            "sub": identity,
            "name": identity,
            **_times(self._ttl_s + longer_s),
            "video": {"roomJoin": True, "room": room_of(session_id), **grants},
            "attributes": attributes,
            "roomConfig": self._room_config,
        }
        return _encode(claims, self._signer)


def service_token(api_key: str, api_secret: str, video: Mapping[str, object]) -> str:
    """Return a token for one call of the room service, with these grants."""
    claims = {"iss": api_key, "sub": "", **_times(CLOCK_LEEWAY_S), "video": video}
    return _encode(claims, Signer(api_secret.encode()))


def _times(ttl_s: int) -> dict[str, int]:
    now_s = int(time.time())
    return {"nbf": now_s - CLOCK_LEEWAY_S, "exp": now_s + ttl_s}


def _encode(claims: Mapping[str, object], signer: Signer) -> str:
    body = _base64url(to_json(claims))
    signed = b".".join((_HEADER, body))
    return b".".join((signed, _base64url(signer.digest(signed)))).decode()


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


_HEADER = _base64url(b'{"alg":"HS256","typ":"JWT"}')
_JWT = re.compile(r"eyJ[\w-]{5,}\.[\w-]*(\.[\w-]*)?")


def redact(text: str) -> str:
    """Return *text* without tokens: LiveKit's own error texts carry them whole."""
    return _JWT.sub("<token>", text)
