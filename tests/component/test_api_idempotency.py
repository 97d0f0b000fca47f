"""The Idempotency-Key: a create call that may be repeated."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.support.replica import (
    SESSIONS,
    BeginNode,
    Client,
    assert_problem,
    served,
    settings_for,
)
from tests.support.room_service import RoomService


async def create(api: Client, key: str, **body: object) -> httpx.Response:
    """Create alice's session under a key."""
    return await api.post(
        SESSIONS, json={"identity": "alice", **body}, headers={"Idempotency-Key": key}
    )


async def test_a_repeat_finds_the_same_session(api: Client) -> None:
    """Same key, same body: one session, said to be a replay, with a token."""
    first, again = await create(api, "key-1"), await create(api, "key-1")

    assert first.json()["session_id"] == again.json()["session_id"]
    assert (first.json()["idempotent_replay"], again.json()["idempotent_replay"]) == (False, True)
    assert again.status_code == 202
    assert again.json()["token"]
    assert (await api.create(identity="bob")).json()["queue_position"] == 2


async def test_a_repeat_shows_the_present_state(api: Client, begin_node: BeginNode) -> None:
    """What was queued is running by now, and the repeat says so."""
    session_id = (await create(api, "key-1")).json()["session_id"]
    node = await begin_node()
    await api.create(identity="bob")  # serves the line
    await node.play(session_id)

    again = await create(api, "key-1")

    assert (again.status_code, again.json()["status"]) == (200, "running")
    assert again.json()["worker_id"] == "node-a"


async def test_a_repeat_after_the_end_gives_no_token(api: Client) -> None:
    """200 with the terminal state and a null token."""
    session_id = (await create(api, "key-1")).json()["session_id"]
    await api.stop(session_id)

    again = await create(api, "key-1")

    assert (again.status_code, again.json()["status"]) == (200, "closed")
    assert again.json()["token"] is None
    assert again.json()["idempotent_replay"]


@pytest.mark.parametrize(
    "change",
    [{"prompt": "sea"}, {"config": {"fps": 30}}, {"image_path": "b.png"}, {"identity": "bob"}],
)
async def test_another_body_under_the_same_key_is_a_conflict(
    api: Client, change: dict[str, object]
) -> None:
    """409: the key stands for one request."""
    await create(api, "key-1", prompt="forest")

    answer = await create(api, "key-1", **{"prompt": "forest", **change})

    assert_problem(answer, 409, "idempotency_mismatch")


async def test_spelling_of_the_body_does_not_matter(api: Client) -> None:
    """Other spaces, another order and ignored keys make it no other body."""
    headers = {"Idempotency-Key": "key-1"}
    one = b'{"identity": "alice", "config": {"a": 1, "b": 2}}'
    two = b'{"config":{"b":2,"a":1},"identity":"alice","colour":"red"}'

    first = await api.post(SESSIONS, content=one, headers=headers)
    again = await api.post(SESSIONS, content=two, headers=headers)

    assert first.json()["session_id"] == again.json()["session_id"]


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_of_wrong_length_is_refused(api: Client, key: str) -> None:
    """422 for an empty one and for more than 255 characters."""
    problem = assert_problem(await create(api, key), 422, "invalid_request")

    assert "1 to 255" in str(problem["detail"])


async def test_other_keys_are_other_sessions(api: Client) -> None:
    """Each key opens a session of its own; so does each call without one."""
    ids = [
        answer.json()["session_id"]
        for answer in (
            await create(api, "key-1"),
            await create(api, "k" * 255),
            await api.create(),
            await api.create(),
        )
    ]

    assert len(set(ids)) == 4


async def test_two_replicas_at_once_open_one_session(
    api: Client, redis_url: str, room_service: RoomService
) -> None:
    """The same key on two replicas at the same time still means one session."""
    async with served(settings_for(redis_url, room_service.url)) as (_, other):
        answers = await asyncio.gather(
            *(create(replica, "key-1") for replica in (api, other) for _ in range(4))
        )

    assert len({answer.json()["session_id"] for answer in answers}) == 1
    assert sum(not answer.json()["idempotent_replay"] for answer in answers) == 1


async def test_a_refused_call_may_be_tried_again(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """A 429 uses the key up for nothing: later the same call is let in."""
    async with served(settings_for(redis_url, room_service.url, queue_size=0)) as (_, api):
        refused = await create(api, "key-1")
        await begin_node()
        accepted = await create(api, "key-1")

    assert (refused.status_code, accepted.status_code) == (429, 200)
    assert not accepted.json()["idempotent_replay"]
