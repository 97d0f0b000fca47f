"""POST /v1/stream/sessions: who gets in, who waits, who is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from starlette.types import Message, Scope

from control_plane.app import Replica
from shared.ids import pool_of
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.replica import SESSIONS, BeginNode, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

CREATED_FIELDS = {
    "session_id",
    "room",
    "livekit_url",
    "token",
    "worker_id",
    "status",
    "expires_at",
    "queue_position",
    "estimated_wait_s",
    "estimated_wait_range_s",
    "session_token",
    "idempotent_replay",
}


async def test_a_free_slot_is_given_at_once(api: Client, begin_node: BeginNode) -> None:
    """200, assigned, with the node's name, the end of the session and all tokens."""
    await begin_node()

    answer = await api.create(prompt="a forest")

    created = answer.json()
    assert answer.status_code == 200
    assert set(created) == CREATED_FIELDS
    assert created["status"] == "assigned"
    assert created["worker_id"] == "node-a"
    assert created["queue_position"] is None
    assert created["expires_at"] > 1_600_000_000
    assert created["room"] == f"tf-world-{created['session_id']}"
    assert created["token"].count(".") == 2
    assert not created["idempotent_replay"]


async def test_without_a_free_slot_one_waits_in_line(api: Client) -> None:
    """202, queued, with the place; the time doesn't run yet."""
    first, second = await api.create(), await api.create(identity="bob")

    assert [first.status_code, second.status_code] == [202, 202]
    assert [first.json()["queue_position"], second.json()["queue_position"]] == [1, 2]
    assert first.json()["status"] == "queued"
    assert first.json()["worker_id"] is None
    assert first.json()["expires_at"] is None
    assert first.json()["token"]


async def test_a_full_line_refuses(redis_url: str, room_service: RoomService) -> None:
    """429 ``queue_full``, with Retry-After and a sentence for people."""
    async with served(settings_for(redis_url, room_service.url, queue_size=1)) as (_, api):
        await api.create()
        answer = await api.create(identity="bob")

    problem = assert_problem(answer, 429, "busy")
    assert problem["detail"] == "queue_full"
    assert problem["retryable"]
    assert answer.headers["retry-after"] == str(problem["retry_after_s"])


async def test_without_a_line_a_busy_stage_refuses(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """429 ``no_idle_worker`` when the queue is off; a free slot is still given."""
    await begin_node()
    async with served(settings_for(redis_url, room_service.url, queue_size=0)) as (_, api):
        given, refused = await api.create(), await api.create(identity="bob")

    assert given.status_code == 200
    assert assert_problem(refused, 429, "busy")["detail"] == "no_idle_worker"


async def test_the_request_reaches_the_node_as_it_was_sent(api: Client, registry: Registry) -> None:
    """Prompt, path and configuration are kept; unknown keys are not."""
    created = await api.create(
        prompt="a forest", image_path="trees.png", config={"fps": 24}, colour="red"
    )

    kept = await registry.request(created.json()["session_id"])

    assert kept is not None
    assert (kept.identity, kept.prompt, kept.image_path) == ("alice", "a forest", "trees.png")
    assert kept.config == {"fps": 24}


async def test_the_session_limits_are_the_replicas_own(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """The session limit of the settings is frozen into the record: it ends that much later."""
    await begin_node()
    settings = settings_for(redis_url, room_service.url, session_timeout_s=100)
    async with served(settings) as (_, api):
        created = (await api.create()).json()
        seen = (await api.look(created["session_id"])).json()

    assert seen["expires_at"] - seen["created_at"] == pytest.approx(100, abs=2)


BAD_BODIES = [
    ({}, "The field 'identity' is missing."),
    ({"identity": ""}, "The field 'identity' is wrong: string should have at least 1 character."),
    (
        {"identity": "a" * 300},
        "The field 'identity' is wrong: string should have at most 256 characters.",
    ),
    ({"identity": "é" * 129}, "The field 'identity' is wrong: it has over 256 bytes in UTF-8."),
    ({"identity": "🎉" * 65}, "The field 'identity' is wrong: it has over 256 bytes in UTF-8."),
    ({"identity": 7}, "The field 'identity' is wrong: input should be a valid string."),
    ({"identity": None}, "The field 'identity' is wrong: input should be a valid string."),
    ({"identity": "a\nb"}, "The field 'identity' is wrong: it has control characters."),
    (
        {"identity": "a", "role": "viewer"},
        "The field 'role' is wrong: input should be 'controller'.",
    ),
    ({"identity": "a", "prompt": ["x"]}, "The field 'prompt' is wrong: input should be a valid"),
    ({"identity": "a", "prompt": "x" * 4001}, "The field 'prompt' is wrong: string should have at"),
    ({"identity": "a", "config": []}, "The field 'config' is wrong: input should be a valid dict"),
    ({"identity": "a", "image_path": 1}, "The field 'image_path' is wrong: input should be a val"),
    ({"identity": 1, "config": 1}, "input should be a valid string (and 1 more)."),
    ([], "The body must be a JSON object."),
    ("alice", "The body must be a JSON object."),
]


@pytest.mark.parametrize(("body", "sentence"), BAD_BODIES)
async def test_a_wrong_body_is_refused_in_one_sentence(
    api: Client, body: object, sentence: str
) -> None:
    """422, naming the field and what it should be."""
    answer = await api.post(SESSIONS, json=body)

    problem = assert_problem(answer, 422, "invalid_request")
    assert sentence in str(problem["detail"])
    assert not problem["retryable"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"identity=alice", b"\xff\xfe", b'{"identity": NaN}', b"[" * 100_000],
    ids=["empty", "cut off", "a form", "no UTF-8", "NaN", "too deep"],
)
async def test_a_body_that_is_not_json_is_refused(api: Client, body: bytes) -> None:
    """422, whatever the bytes are."""
    answer = await api.post(SESSIONS, content=body, headers={"content-type": "application/json"})

    problem = assert_problem(answer, 422, "invalid_request")
    assert str(problem["detail"]).startswith("The body isn't valid JSON")


async def test_an_identity_may_fill_all_the_bytes_that_livekit_takes(api: Client) -> None:
    """Bytes count, not characters: what is accepted here can join."""
    assert (await api.create(identity="é" * 128)).status_code == 202


async def test_half_a_character_is_no_identity(api: Client) -> None:
    """A lone surrogate, which JSON can write and UTF-8 can't, is refused and not stored."""
    answer = await api.post(SESSIONS, content=b'{"identity": "a\\ud800"}')

    assert_problem(answer, 422, "invalid_request")


@pytest.mark.parametrize("identity", ["telefuser-node-a-1-1", "telefuser-"])
async def test_a_workers_name_is_refused(api: Client, identity: str) -> None:
    """422: nobody else may be called as workers are."""
    assert_problem(await api.create(identity=identity), 422, "reserved_identity")


async def test_an_unknown_pool_is_refused(api: Client) -> None:
    """422, naming the pools that are served."""
    problem = assert_problem(await api.create(pool="gold"), 422, "unknown_pool")

    assert "default" in str(problem["detail"])


async def test_the_pool_may_be_named(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """A replica of several pools puts each session in the named one; the first is the default."""
    await begin_node(pool="gold", node_id="node-gold")
    async with served(settings_for(redis_url, room_service.url, pool="silver, gold")) as (_, api):
        gold, silver = await api.create(pool="gold"), await api.create()

    assert (gold.status_code, gold.json()["worker_id"]) == (200, "node-gold")
    assert (silver.status_code, pool_of(silver.json()["session_id"])) == (202, "silver")


async def test_too_much_configuration_is_refused(api: Client) -> None:
    """422: what one request may keep in Redis is bounded."""
    answer = await api.create(config={"notes": "x" * 300_000})

    assert "256 KiB" in str(assert_problem(answer, 422, "invalid_request")["detail"])


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 5000])
async def test_a_number_that_nobody_can_hold_is_refused(api: Client, number: str) -> None:
    """422: it would reach the model as infinity, or not at all."""
    body = f'{{"identity": "alice", "config": {{"seed": {number}}}}}'

    assert_problem(await api.post(SESSIONS, content=body), 422, "invalid_request")


async def test_a_body_over_the_limit_is_refused(api: Client) -> None:
    """413, whether its length is announced or not."""

    async def chunks() -> object:
        for _ in range(17):
            yield b"x" * 1024 * 1024

    announced = await api.post(SESSIONS, content=b"x" * (16 * 1024 * 1024 + 1))
    unannounced = await api.post(SESSIONS, content=chunks())  # type: ignore[arg-type]

    assert_problem(announced, 413, "body_too_large")
    assert_problem(unannounced, 413, "body_too_large")


async def test_a_body_of_unknown_length_below_the_limit_is_read(api: Client) -> None:
    """A chunked body arrives whole."""

    async def chunks() -> object:
        yield b'{"identity":'
        yield b' "alice"}'

    answer = await api.post(SESSIONS, content=chunks())  # type: ignore[arg-type]

    assert answer.status_code == 202


@pytest.mark.parametrize("header", [(b"content-length", b"20"), (b"transfer-encoding", b"chunked")])
async def test_a_client_that_leaves_in_mid_body_is_no_fault(
    replica: tuple[Replica, Client], header: tuple[bytes, bytes]
) -> None:
    """Nothing is raised, so nothing is logged as an error, and nobody is put in line."""
    parts, api = replica
    came: list[Message] = [
        {"type": "http.request", "body": b'{"identity":', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return came.pop(0) if came else {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        return

    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": SESSIONS,
        "query_string": b"",
        "headers": [header],
    }
    await parts.app(scope, receive, send)

    assert (await api.get(SESSIONS)).json()["sessions"] == []


async def test_while_livekit_is_out_nobody_new_is_let_in(
    replica: tuple[Replica, Client], room_service: RoomService
) -> None:
    """503 with Retry-After, from the cached probe; nothing is left in line."""
    parts, api = replica
    room_service.down = True
    await parts.vitals.probe_rooms()

    answer = await api.create()

    problem = assert_problem(answer, 503, "rooms_unavailable")
    assert problem["retryable"]
    assert int(answer.headers["retry-after"]) >= 1
    room_service.down = False
    await wait_until(lambda: parts.vitals.rooms_reachable, "the probe sees LiveKit again")
    assert (await api.create()).json()["queue_position"] == 1


async def test_creating_asks_redis_once_and_livekit_never(
    replica: tuple[Replica, Client], room_service: RoomService
) -> None:
    """One script, and for all who wait one reading of the line a second; LiveKit may hang."""
    parts, api = replica
    asked: list[str] = []
    parts.registry.observe(lambda script, _seconds: asked.append(script))
    room_service.unblocked.clear()

    await api.create()
    await api.create(identity="bob")

    hot_path = [script for script in asked if not script.startswith("sweep")]
    assert hot_path == ["open_session", "read_line", "open_session"]
    assert room_service.calls == []


async def test_the_token_is_for_this_room_and_identity(api: Client, begin_node: BeginNode) -> None:
    """The LiveKit token names the controller, and its lifetime is the setting's."""
    await begin_node()
    created = (await api.create()).json()

    claims = _claims(created["token"])

    assert claims["sub"] == "alice"
    assert claims["video"]["room"] == created["room"]
    assert claims["exp"] - claims["nbf"] >= 3600


def _claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    parsed: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return parsed


async def test_a_played_session_keeps_its_place(api: Client, begin_node: BeginNode) -> None:
    """The next in line is assigned when the one before has ended on its node."""
    node: PlayedNode = await begin_node()
    first = (await api.create()).json()["session_id"]
    second = (await api.create(identity="bob")).json()["session_id"]
    await node.play(first)

    assert (await api.look(first)).json()["status"] == "running"
    assert (await api.look(second)).json()["queue_position"] == 1
