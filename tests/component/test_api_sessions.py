"""GET and DELETE of a session: how it stands, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.api import sessions
from shared.ids import new_session_id, room_of
from shared.states import Reason
from shared.store import Registry
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomCall, RoomService
from tests.support.wait import wait_until

STATUS_FIELDS = {
    "session_id",
    "room",
    "livekit_url",
    "status",
    "worker_id",
    "node_id",
    "pipeline_session_id",
    "created_at",
    "updated_at",
    "expires_at",
    "participant_count",
    "error",
    "reason",
    "queue_position",
    "estimated_wait_s",
    "estimated_wait_range_s",
    "attempt",
    "epoch",
}


async def test_get_tells_all_of_a_running_session(api: Client, begin_node: BeginNode) -> None:
    """Every field has its value once the session plays."""
    node = await begin_node()
    session_id = (await api.create()).json()["session_id"]
    await node.play(session_id)

    answer = await api.look(session_id)

    seen = answer.json()
    assert answer.status_code == 200
    assert set(seen) == STATUS_FIELDS
    assert seen["status"] == "running"
    assert seen["room"] == room_of(session_id)
    assert seen["worker_id"] == seen["node_id"] == "node-a"
    assert seen["pipeline_session_id"] == "world-1"
    assert seen["participant_count"] == 1
    assert seen["attempt"] == 1
    assert seen["epoch"] > 1_600_000_000_000
    assert seen["created_at"] <= seen["updated_at"] < seen["expires_at"]
    assert seen["error"] is seen["reason"] is seen["queue_position"] is None
    assert seen["estimated_wait_s"] is seen["estimated_wait_range_s"] is None


async def test_the_place_in_line_moves(api: Client) -> None:
    """Position 1 leaves; position 2 becomes 1."""
    first = (await api.create()).json()["session_id"]
    second = (await api.create(identity="bob")).json()["session_id"]
    assert (await api.look(second)).json()["queue_position"] == 2

    await api.stop(first)

    assert (await api.look(second)).json()["queue_position"] == 1


async def test_every_replica_answers_for_every_session(
    api: Client, redis_url: str, room_service: RoomService
) -> None:
    """What one replica created, another one shows and ends."""
    session_id = (await api.create()).json()["session_id"]
    async with served(settings_for(redis_url, room_service.url)) as (_, other):
        assert (await other.look(session_id)).json()["queue_position"] == 1
        assert (await other.stop(session_id)).json()["status"] == "closed"

    assert (await api.look(session_id)).json()["reason"] == "client_stop"


@pytest.mark.parametrize(
    "session_id",
    [new_session_id("default"), new_session_id("other"), "nonsense", "'"],
    ids=["never made", "another pool", "no session id", "a quote"],
)
async def test_an_unknown_session_is_not_found(api: Client, session_id: str) -> None:
    """404 with the compatible text, for GET, DELETE and tokens alike."""
    answers = [
        await api.look(session_id),
        await api.stop(session_id),
        await api.post(f"/v1/stream/sessions/{session_id}/tokens", json={"identity": "bob"}),
    ]

    for answer in answers:
        problem = assert_problem(answer, 404, "unknown_session")
        assert problem["detail"] == repr(f"Session {session_id} not found")
        assert not problem["retryable"]


async def test_leaving_the_line_ends_the_session_and_its_room(
    api: Client, room_service: RoomService
) -> None:
    """A waiting session is closed at once; nobody else would delete its room."""
    session_id = (await api.create()).json()["session_id"]

    answer = await api.stop(session_id)

    assert (answer.status_code, answer.json()) == (
        200,
        {"session_id": session_id, "status": "closed"},
    )
    await wait_until(lambda: room_service.made("DeleteRoom"), "the room is deleted")
    assert room_service.made("DeleteRoom") == [RoomCall("DeleteRoom", session_id)]


async def test_delete_waits_for_the_cleanup(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """A resident session is closed once its node has confirmed."""
    node = await begin_node()
    session_id = (await api.create()).json()["session_id"]
    await node.play(session_id)

    stopping = asyncio.create_task(api.stop(session_id))

    async def draining() -> bool:
        return (await registry.read(session_id)).state == "draining"

    await wait_until(draining, "the session drains")
    assert not stopping.done()
    await node.end(session_id, Reason.CLIENT_STOP)
    assert (await stopping).json()["status"] == "closed"


async def test_delete_gives_up_waiting_and_says_draining(
    api: Client, begin_node: BeginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that takes long for its cleanup doesn't hold the caller for ever."""
    monkeypatch.setattr(sessions, "CLEANUP_WAIT_S", 0.2)
    node = await begin_node()
    session_id = (await api.create()).json()["session_id"]
    await node.play(session_id)

    answer = await api.stop(session_id)

    assert (answer.status_code, answer.json()["status"]) == (200, "draining")
    assert (await api.look(session_id)).json()["reason"] == "client_stop"


async def test_delete_twice_gives_the_same_answer(api: Client) -> None:
    """Ending an ended session changes nothing."""
    session_id = (await api.create()).json()["session_id"]

    first, second = await api.stop(session_id), await api.stop(session_id)

    assert (first.status_code, first.json()) == (second.status_code, second.json())


async def test_the_error_of_a_failed_session_stays(api: Client, begin_node: BeginNode) -> None:
    """GET tells the reason and the text; a later DELETE wipes neither."""
    node = await begin_node()
    session_id = (await api.create()).json()["session_id"]
    await node.play(session_id)
    await node.end(session_id, Reason.SERVICE_ERROR, "the world fell over")

    await api.stop(session_id)

    seen = (await api.look(session_id)).json()
    assert (seen["status"], seen["reason"]) == ("failed", "service_error")
    assert seen["error"] == "the world fell over"


async def test_looking_is_a_sign_of_life(
    api: Client, raw_redis: RawRedis, registry: Registry
) -> None:
    """GET of a waiting session moves its waiting lease; reading it elsewhere doesn't."""
    session_id = (await api.create()).json()["session_id"]
    raw_redis.hset(f"gr:{{default}}:s:{session_id}", "d_queued", 90_000)
    begun = raw_redis.zscore("gr:{default}:dl", session_id)

    await registry.read(session_id)
    silent = raw_redis.zscore("gr:{default}:dl", session_id)
    await api.look(session_id)
    alive = raw_redis.zscore("gr:{default}:dl", session_id)

    assert silent == begun
    assert (alive or 0) > (silent or 0) > 0


async def test_while_redis_is_out_the_answer_is_a_503(
    start_redis: object, room_service: RoomService
) -> None:
    """Every call answers soon, with Retry-After; the same call works once Redis is back."""
    server = start_redis("--appendonly", "yes")  # type: ignore[operator]
    async with served(settings_for(server.url, room_service.url)) as (_, api):
        session_id = (await api.create()).json()["session_id"]
        server.kill()

        for answer in (await api.create(), await api.look(session_id), await api.stop(session_id)):
            problem = assert_problem(answer, 503, "store_unavailable")
            assert problem["retryable"]
            assert answer.headers["retry-after"] == str(problem["retry_after_s"])

        server.start()
        assert (await api.create(identity="bob")).status_code == 202


async def test_a_redis_that_hangs_is_a_503_too(
    start_redis: object, room_service: RoomService
) -> None:
    """No answer within a second counts as out; it never hangs the caller."""
    server = start_redis()  # type: ignore[operator]
    async with served(settings_for(server.url, room_service.url)) as (_, api):
        server.pause()
        try:
            async with asyncio.timeout(5):
                assert_problem(await api.create(), 503, "store_unavailable")
        finally:
            server.resume()
