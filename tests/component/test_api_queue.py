"""The operator's view: the line with places, ages and estimates, and taking somebody out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import httpx
import pytest

from shared.ids import new_session_id
from tests.support.redis_server import RawRedis
from tests.support.replica import (
    SESSIONS,
    BeginNode,
    Client,
    assert_problem,
    served,
    settings_for,
)
from tests.support.room_service import RoomCall, RoomService
from tests.support.wait import wait_until

QUEUE = "/v1/queue"


async def waiting(api: Client, *identities: str) -> list[str]:
    """Create sessions and return their ids."""
    return [(await api.create(identity=who)).json()["session_id"] for who in identities]


async def test_the_queue_shows_who_waits_where_and_since_when(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """In order, without anybody's identity; what estimates are made of stands beside."""
    await begin_node()
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        _, first, second = await waiting(api, "alice", "bob", "carol")

        async def both_are_seen() -> httpx.Response | None:
            answer = await api.get(QUEUE)
            return answer if answer.json()["pools"][0]["length"] == 2 else None

        answer = await wait_until(both_are_seen, "both are in the next reading of the line")
        assert answer is not None
    (pool,) = answer.json()["pools"]
    assert (pool["pool"], pool["length"], pool["max_length"]) == ("default", 2, 10)
    assert (pool["slots"], pool["slots_taken"], pool["learned_from"]) == (1, 1, 0)
    assert [(w["position"], w["session_id"]) for w in pool["waiting"]] == [(1, first), (2, second)]
    assert pool["oldest_wait_s"] == pool["waiting"][0]["waiting_s"] >= 0
    assert pool["waiting"][0]["waiting_s"] >= pool["waiting"][1]["waiting_s"]
    assert pool["waiting"][0]["estimated_wait_s"] is pool["usual_hold_s"] is None
    assert "bob" not in answer.text


async def test_an_empty_queue_reads_zero(api: Client) -> None:
    """Nobody waits, no node is there."""
    (pool,) = (await api.get(QUEUE)).json()["pools"]
    assert (pool["length"], pool["waiting"], pool["oldest_wait_s"], pool["slots"]) == (0, [], 0, 0)


async def test_each_pool_has_a_queue_of_its_own(redis_url: str, room_service: RoomService) -> None:
    """All that the replica serves, or the one that is named."""
    settings = settings_for(redis_url, room_service.url, pool="small,large")
    async with served(settings) as (_, api):
        await api.create(pool="large")
        lengths = {p["pool"]: p["length"] for p in (await api.get(QUEUE)).json()["pools"]}
        assert lengths == {"small": 0, "large": 1}
        (only,) = (await api.get(QUEUE, params={"pool": "large"})).json()["pools"]
        assert only["pool"] == "large"
        assert_problem(await api.get(QUEUE, params={"pool": "huge"}), 422, "unknown_pool")


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "²", "9" * 5000])
async def test_a_limit_that_is_none_is_refused(api: Client, limit: str) -> None:
    """With the numbers that may be used."""
    problem = assert_problem(await api.get(QUEUE, params={"limit": limit}), 422, "invalid_request")
    assert "1 to 1000" in str(problem["message"])


async def test_an_operator_takes_somebody_out_of_the_line(
    api: Client, room_service: RoomService
) -> None:
    """It ends with the reason `admin`, its room goes, and those behind move up."""
    _, second, third = await waiting(api, "alice", "bob", "carol")

    answer = await api.delete(f"{QUEUE}/{second}")

    assert (answer.status_code, answer.json()) == (
        200,
        {"session_id": second, "status": "closed"},
    )
    assert (await api.look(second)).json()["reason"] == "admin"
    assert (await api.look(third)).json()["queue_position"] == 2
    deleted = RoomCall("DeleteRoom", second)
    await wait_until(lambda: deleted in room_service.made("DeleteRoom"), "its room is deleted")
    assert (await api.delete(f"{QUEUE}/{second}")).status_code == 200


async def test_who_was_served_meanwhile_is_left_alone(api: Client, begin_node: BeginNode) -> None:
    """409, and the session goes on."""
    await begin_node()
    (session_id,) = await waiting(api, "alice")
    assert_problem(await api.delete(f"{QUEUE}/{session_id}"), 409, "not_waiting")
    assert (await api.look(session_id)).json()["status"] == "assigned"


async def test_an_unknown_place_is_not_found(api: Client) -> None:
    """And nothing changes."""
    (session_id,) = await waiting(api, "alice")
    for unknown in (new_session_id("default"), "nobody"):
        assert_problem(await api.delete(f"{QUEUE}/{unknown}"), 404, "unknown_session")
    assert (await api.look(session_id)).json()["queue_position"] == 1


async def walk(api: Client, *, limit: int = 50, **query: object) -> list[str]:
    """Walk through a list and return its sessions; no page is longer than *limit*."""
    return list(chain.from_iterable([page async for page in pages(api, limit=limit, **query)]))


async def pages(api: Client, *, limit: int, **query: object) -> AsyncIterator[list[str]]:
    """Yield a list page by page."""
    cursor = ""
    while True:
        asked: dict[str, Any] = {**query, "limit": limit, "cursor": cursor}
        answer = await api.get(SESSIONS, params=asked)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["sessions"]) <= limit
        yield [one["session_id"] for one in page["sessions"]]
        if (cursor := page["cursor"]) is None:
            return


async def test_the_list_walks_through_all_sessions(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Those in line, those on nodes, those that ended, each once, on any replica."""
    async with (
        served(settings_for(redis_url, room_service.url, queue_size=20)) as (_, api),
        served(settings_for(redis_url, room_service.url)) as (_, other),
    ):
        await begin_node(node_id="node-a", capacity=2)
        await begin_node(node_id="node-b", capacity=1)
        made = await waiting(api, *(f"client-{n}" for n in range(9)))
        for session_id in (made[5], made[7]):
            await api.stop(session_id)
        walked = await walk(other, limit=2)
        ended = await walk(other, status="closed")
        served_now = await walk(api, status="assigned,running")
    assert sorted(walked) == sorted(made)
    assert walked[:4] == [made[3], made[4], made[6], made[8]]
    assert ended == [made[7], made[5]]
    assert sorted(served_now) == sorted(made[:3])


async def test_the_list_tells_what_a_look_at_each_would(api: Client) -> None:
    """The same fields, and no identity."""
    (session_id,) = await waiting(api, "alice-in-person")
    answer = await api.get(SESSIONS)
    (listed,) = answer.json()["sessions"]
    assert listed == (await api.look(session_id)).json()
    assert "alice" not in answer.text


async def test_looking_at_the_list_is_no_sign_of_life(api: Client, raw_redis: RawRedis) -> None:
    """An operator's screen must not keep places of people who left."""
    (session_id,) = await waiting(api, "alice")
    lease = raw_redis.zscore("gr:{default}:dl", session_id)
    await walk(api)
    assert raw_redis.zscore("gr:{default}:dl", session_id) == lease


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"status": "sleeping"}, "queued"),
        ({"limit": "201"}, "1 to 200"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "default~q~x"}, "cursor"),
    ],
)
async def test_a_wrong_question_is_answered_with_what_is_right(
    api: Client, query: dict[str, str], word: str
) -> None:
    """One sentence."""
    problem = assert_problem(await api.get(SESSIONS, params=query), 422, "invalid_request")
    assert word in str(problem["message"])


async def test_a_cursor_outlives_its_node(api: Client, begin_node: BeginNode) -> None:
    """The walk goes on behind the place where that node stood; who moved meanwhile isn't there."""
    gone = await begin_node(node_id="node-b")
    for name in ("node-a", "node-c"):
        await begin_node(node_id=name)
    first, moved, third = await waiting(api, "alice", "bob", "carol")
    page = (await api.get(SESSIONS, params={"limit": "1"})).json()
    assert page["cursor"] == "default~n:node-b~"
    await gone.retire()
    rest = (await api.get(SESSIONS, params={"cursor": page["cursor"]})).json()
    listed = [one["session_id"] for one in page["sessions"] + rest["sessions"]]
    assert (listed, rest["cursor"]) == ([first, third], None)
    assert (await api.look(moved)).json()["queue_position"] == 1
