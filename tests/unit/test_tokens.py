"""Do our own tokens say exactly what livekit's AccessToken would say?"""

from __future__ import annotations

import time
from datetime import timedelta

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from livekit import api

from shared.ids import WorkerIdentity, new_session_id, room_of
from shared.rooms.tokens import (
    CLOCK_LEEWAY_S,
    DEPARTURE_TIMEOUT_S,
    EMPTY_TIMEOUT_S,
    Role,
    RoomTokens,
    order_of,
    redact,
    role_of,
    room_metadata,
    service_token,
)

KEY, SECRET = "devkey", "a-secret-that-is-long-enough-for-hs256"
TTL_S = 900
WORKER = WorkerIdentity(node_id="node-a", epoch=1796046821932, attempt=3)

tokens = RoomTokens(KEY, SECRET, TTL_S, "dep-1")
session_id = new_session_id("default")


def claims_of(token: str, ttl_s: int = TTL_S) -> dict[str, object]:
    """Claims of a token, its times checked and taken out."""
    claims = jwt.decode(token, SECRET, algorithms=["HS256"], issuer=KEY)
    assert abs(claims.pop("exp") - ttl_s - time.time()) < 5
    assert abs(claims.pop("nbf") + CLOCK_LEEWAY_S - time.time()) < 5
    return dict(claims)


def livekits_claims(
    identity: str, grants: api.VideoGrants, attributes: dict[str, str]
) -> dict[str, object]:
    """What livekit's own AccessToken would claim."""
    config = api.RoomConfiguration(
        empty_timeout=EMPTY_TIMEOUT_S,
        departure_timeout=DEPARTURE_TIMEOUT_S,
        metadata='{"deployment":"dep-1"}',
    )
    token = (
        api.AccessToken(KEY, SECRET)
        .with_identity(identity)
        .with_name(identity)
        .with_grants(grants)
        .with_attributes(attributes)
        .with_room_config(config)
        .with_ttl(timedelta(seconds=TTL_S))
    )
    claims = jwt.decode(token.to_jwt(), SECRET, algorithms=["HS256"])
    return {name: value for name, value in claims.items() if name not in ("exp", "nbf")}


def test_the_controllers_token_lets_it_watch_and_speak() -> None:
    """Subscribe and data, no media of its own."""
    assert claims_of(tokens.controller(session_id, "alice")) == livekits_claims(
        "alice",
        api.VideoGrants(
            room_join=True,
            room=room_of(session_id),
            can_publish=False,
            can_subscribe=True,
            can_publish_data=True,
        ),
        {"gr.role": "controller"},
    )


def test_a_service_that_listens_lets_the_controller_send_exactly_that() -> None:
    """Microphone or camera only if the service declares such inputs."""
    claims = claims_of(tokens.controller(session_id, "alice", inputs=("audio", "text")))
    assert claims["video"] == {
        "roomJoin": True,
        "room": room_of(session_id),
        "canPublish": True,
        "canSubscribe": True,
        "canPublishData": True,
        "canPublishSources": ["microphone"],
    }


def test_the_viewers_token_lets_it_watch_only() -> None:
    """No media, no data."""
    assert claims_of(tokens.viewer(session_id, "bob")) == livekits_claims(
        "bob",
        api.VideoGrants(
            room_join=True,
            room=room_of(session_id),
            can_publish=False,
            can_subscribe=True,
            can_publish_data=False,
        ),
        {"gr.role": "viewer"},
    )


def test_the_workers_token_lets_it_play_and_says_which_one_it_is() -> None:
    """Camera and microphone tracks and data; epoch and attempt are signed."""
    told = claims_of(tokens.worker(session_id, WORKER), TTL_S + CLOCK_LEEWAY_S)
    assert told == livekits_claims(
        str(WORKER),
        api.VideoGrants(
            room_join=True,
            room=room_of(session_id),
            can_publish=True,
            can_subscribe=False,
            can_publish_data=True,
            can_publish_sources=["camera", "microphone"],
        ),
        {"gr.role": "worker", "gr.epoch": "1796046821932", "gr.attempt": "3"},
    )


def test_a_token_of_the_room_service_grants_what_livekits_own_would() -> None:
    """For one call, and for machines whose clocks differ."""
    grants = api.VideoGrants(room_admin=True, room=room_of(session_id))
    signed = api.AccessToken(KEY, SECRET).with_grants(grants)
    video = signed.claims.asdict()["video"]
    claims = jwt.decode(signed.to_jwt(), SECRET, algorithms=["HS256"])
    del claims["exp"], claims["nbf"]
    assert claims_of(service_token(KEY, SECRET, video), CLOCK_LEEWAY_S) == claims


def test_livekits_verifier_takes_our_tokens() -> None:
    """The header and the signature are as its server reads them, room configuration included."""
    claims = api.TokenVerifier(KEY, SECRET).verify(tokens.worker(session_id, WORKER))
    assert claims.identity == str(WORKER)
    assert claims.room_config is not None
    assert claims.room_config.departure_timeout == DEPARTURE_TIMEOUT_S


def test_a_forged_token_is_refused() -> None:
    """Another secret makes another signature."""
    forged = RoomTokens(KEY, SECRET[::-1], TTL_S, "dep-1").viewer(session_id, "bob")
    with pytest.raises(jwt.InvalidSignatureError):
        api.TokenVerifier(KEY, SECRET).verify(forged)


def test_a_strange_identity_is_carried_unchanged() -> None:
    """JSON and base64 keep whatever a client may be called."""
    identity = 'Zoë "x" \\ 名前 🎭'
    assert claims_of(tokens.viewer(session_id, identity))["sub"] == identity


def test_what_somebody_is_comes_from_signed_attributes() -> None:
    """A name proves nothing, and half a worker is none."""
    assert role_of({}) is None
    assert role_of({"gr.role": "boss"}) is None
    assert order_of({"gr.role": "worker", "gr.epoch": "7", "gr.attempt": "2"}) == (7, 2)
    assert order_of({"gr.role": "worker", "gr.epoch": "x", "gr.attempt": "2"}) is None
    assert order_of({"gr.role": "viewer", "gr.epoch": "7", "gr.attempt": "2"}) is None
    assert role_of({"gr.role": "worker"}) is Role.WORKER


def test_room_metadata_names_the_epoch_once_there_is_one() -> None:
    """Whose room it is, and who may play in it."""
    assert room_metadata("dep") == '{"deployment":"dep"}'
    assert room_metadata("dep", 7) == '{"deployment":"dep","epoch":7}'


def test_no_token_survives_in_an_error_text() -> None:
    """LiveKit's own texts quote whole URLs."""
    token = tokens.viewer(session_id, "bob")
    text = redact(f"failed: wss://host/rtc?access_token={token}&auto_subscribe=1 (404)")
    assert text == "failed: wss://host/rtc?access_token=<token>&auto_subscribe=1 (404)"


@given(st.text())
def test_a_text_without_a_token_is_left_alone(text: str) -> None:
    """Redaction touches nothing that doesn't look like one."""
    if "eyJ" not in text:
        assert redact(text) == text
