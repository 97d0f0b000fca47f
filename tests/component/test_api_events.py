"""Server-sent events: a waiting client hears of everything at once, on any replica, once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
import redis

from control_plane.api import events
from control_plane.app import Replica
from shared.ids import new_session_id
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.event_stream import Stream, following
from tests.support.redis_server import RawRedis, StartRedis
from tests.support.replica import BeginNode, Client, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

Running = tuple[Replica, Client]


async def created(api: Client, identity: str = "alice") -> str:
    """Create a session and return its id."""
    session_id: str = (await api.create(identity=identity)).json()["session_id"]
    return session_id


async def test_a_client_hears_of_every_stage_and_of_the_end(
    replica: Running, begin_node: BeginNode
) -> None:
    """The present state first, then each change, each with a higher id; then the stream closes."""
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        hint = await stream.next()
        first = await stream.event("queued")
        assert (stream.status, stream.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        assert stream.headers["cache-control"] == "no-store"
        assert hint.retry_ms == 1000
        assert (first.data["position"], first.data["eta"], first.data["status"]) == (
            1,
            None,
            "queued",
        )
        node = await begin_node()
        ids = [first.id, (await stream.event("assigned")).id]
        await node.play(session_id)
        stages: list[str] = []
        while not stages or stages[-1] != "running":
            told = await stream.event("state")
            stages.append(str(told.data["status"]))
            ids.append(told.id)
        await node.end(session_id, Reason.COMPLETED)
        ended = await stream.event("ended")
        assert (ended.data["reason"], ended.data["status"]) == ("completed", "closed")
        ids.append(ended.id)
        await stream.ended()
    assert stages == sorted(
        set(stages), key=lambda word: list(SessionState).index(SessionState(word))
    )
    assert all(isinstance(number, int) for number in ids)
    assert ids == sorted(set(ids), key=int)  # type: ignore[arg-type]


async def test_a_change_is_heard_at_once(replica: Running) -> None:
    """Long before the next reading of the line: a hint wakes the replica."""
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await api.stop(session_id)
        await stream.event("ended")
        assert loop.time() - began_s < 0.7


async def test_the_place_moves_within_a_second(replica: Running) -> None:
    """Whoever is behind is told when somebody ahead leaves."""
    parts, api = replica
    first, second = await created(api), await created(api, "bob")
    async with following(parts.app, second) as stream:
        assert (await stream.event("queued")).data["position"] == 2
        await api.stop(first)
        told = await stream.event("queued", timeout_s=2)
        assert (told.data["position"], told.id) == (1, None)


async def test_a_moved_session_tells_requeued_and_resumed(
    replica: Running, begin_node: BeginNode
) -> None:
    """With the cause, the place at the head of the line, and the epoch of its new worker."""
    parts, api = replica
    node = await begin_node(ttl_s=0.5)
    session_id = await created(api)
    await node.play(session_id)
    async with following(parts.app, session_id) as stream:
        running = await stream.event("state")
        requeued = await stream.event("requeued")
        assert (requeued.data["reason"], requeued.data["position"]) == ("node_died", 1)
        second = await begin_node(node_id="node-b")
        await stream.event("assigned")
        await second.play(session_id)
        told = await stream.next()
        while told.event == "state":
            told = await stream.next()
        assert told.event == "resumed"
        assert told.data["epoch"] == second.holds(session_id).epoch
        assert told.data["epoch"] > running.data["epoch"]  # type: ignore[operator]


async def test_a_client_that_comes_back_goes_on_at_any_replica(
    replica: Running, redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """It names the last id that it got: nothing is told twice, nothing older, nothing is missed."""
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        known = (await stream.event("queued")).id
    async with served(settings_for(redis_url, room_service.url)) as (other, _):
        async with following(other.app, session_id, known) as stream:
            place = await stream.event("queued")
            assert (place.id, place.data["position"]) == (None, 1)
        node = await begin_node()
        await node.play(session_id)
        async with following(other.app, session_id, known) as stream:
            running = await stream.event("state")
            assert running.data["status"] == "running"
        async with following(other.app, session_id, running.id) as stream:
            await node.end(session_id, Reason.COMPLETED)
            assert (await stream.event("ended")).id > running.id  # type: ignore[operator]


async def test_after_the_end_there_is_nothing_to_come_back_for(replica: Running) -> None:
    """204 ends a browser's tries; a client that doesn't know the end is told it."""
    parts, api = replica
    session_id = await created(api)
    await api.stop(session_id)
    async with following(parts.app, session_id) as stream:
        ended = await stream.event("ended")
        await stream.ended()
    async with following(parts.app, session_id, ended.id) as stream:
        assert (stream.status, stream.unread()) == (204, [])


async def test_an_unknown_session_has_no_stream(replica: Running) -> None:
    """404, as for any other question about it."""
    parts, _ = replica
    for session_id in (new_session_id("default"), new_session_id("elsewhere"), "no-such-thing"):
        async with following(parts.app, session_id) as stream:
            assert stream.status == 404
            assert stream.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("nonsense", ["-1", "²", "yesterday", "9" * 5000])
async def test_an_id_that_is_none_of_ours_counts_as_none(replica: Running, nonsense: str) -> None:
    """The present state comes first, as for a new client."""
    parts, api = replica
    session_id = await created(api)
    stream = Stream(parts.app, f"/v1/stream/sessions/{session_id}/events", None)
    stream._last_id = nonsense
    await stream.begin()
    assert (await stream.event("queued")).id is not None
    await stream.leave()


async def test_following_is_a_sign_of_life(replica: Running, raw_redis: RawRedis) -> None:
    """The waiting lease of whoever follows begins anew, again and again."""
    parts, api = replica
    session_id = await created(api)
    record = f"gr:{{default}}:s:{session_id}"
    raw_redis.hset(record, "d_queued", 60_000)
    parts.hub._sign_of_life_s = 0.1
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")

        def renewed(than: int) -> int:
            deadline = int(raw_redis.hget(record, "t_queued") or 0)
            return deadline if deadline > than else 0

        first = await wait_until(lambda: renewed(0), "the lease runs")
        await wait_until(lambda: renewed(first), "it is renewed")


async def test_a_quiet_stream_carries_comments(
    replica: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no proxy takes it for dead."""
    monkeypatch.setattr(events, "COMMENT_EVERY_S", 0.05)
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        assert await stream.comment() == await stream.comment() == ": still here"


async def test_nothing_is_left_of_a_client_that_closes(replica: Running) -> None:
    """No follower, no task: the session is forgotten here."""
    parts, api = replica
    session_id = await created(api)
    for _ in range(3):
        async with following(parts.app, session_id) as stream:
            await stream.event("queued")
            assert list(parts.hub._followed) == [session_id]
    assert parts.hub._followed == {}
    assert parts.hub._named == set()
    names = Counter(task.get_name() for task in asyncio.all_tasks())
    assert not {name for name in names if name.startswith("event_stream")}
    assert "greenroom_event_streams 0.0" in (await api.get("/metrics")).text


async def test_a_stopping_replica_sends_its_clients_elsewhere(replica: Running) -> None:
    """A hint when to come back, then the end; who comes now gets the same."""
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        parts.hub.say_goodbye()
        hint = await stream.next()
        assert hint.event == ""
        assert 250 <= (hint.retry_ms or 0) <= 1500
        await stream.ended()
    async with following(parts.app, session_id) as stream:
        assert stream.status == 503


async def test_two_clients_of_one_session_hear_the_same(
    replica: Running, redis_url: str, room_service: RoomService
) -> None:
    """Two tabs, on one replica or on two: all are told at once."""
    parts, api = replica
    session_id = await created(api)
    async with contextlib.AsyncExitStack() as stack:
        other, _ = await stack.enter_async_context(
            served(settings_for(redis_url, room_service.url))
        )
        streams = [
            await stack.enter_async_context(following(app, session_id))
            for app in (parts.app, parts.app, other.app)
        ]
        for stream in streams:
            await stream.event("queued")
        await api.stop(session_id)
        ids = {(await stream.event("ended", timeout_s=1)).id for stream in streams}
    assert len(ids) == 1


async def test_a_change_between_subscription_and_first_reading_is_told_once(
    replica: Running, registry: Registry
) -> None:
    """Whatever the first reading saw, the end comes exactly once."""
    parts, api = replica
    for _ in range(5):
        session_id = await created(api)
        async with following(parts.app, session_id) as stream:
            await registry.cancel(session_id, Reason.CLIENT_STOP)
            told = await stream.next()
            while told.event != "ended":
                told = await stream.next()
            await stream.ended()


async def test_a_cut_subscription_loses_nothing(replica: Running, raw_redis: RawRedis) -> None:
    """All that are followed are read again once the subscription is back."""
    parts, api = replica
    session_id = await created(api)
    async with following(parts.app, session_id) as stream:
        await stream.event("queued")
        raw_redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")  # type: ignore[no-untyped-call]
        await api.stop(session_id)
        await stream.event("ended", timeout_s=3)


async def test_however_many_wait_redis_is_asked_the_same(
    redis_url: str, room_service: RoomService
) -> None:
    """One reading of the line per second, and no reading per client."""
    async with served(settings_for(redis_url, room_service.url, queue_size=100)) as (parts, api):
        first = await created(api)
        waiting = [await created(api, f"client-{n}") for n in range(40)]
        async with contextlib.AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(following(parts.app, sid)) for sid in waiting
            ]
            for stream in streams:
                await stream.event("queued")
            calls: Counter[str] = Counter()
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            parts.registry.observe(lambda script, _s: calls.update((script,)))
            await api.stop(first)
            for place, stream in enumerate(streams, 1):
                assert (await stream.event("queued", timeout_s=3)).data["position"] == place
            passed_s = loop.time() - began_s
    assert calls["read_line"] <= passed_s / 0.9 + 1
    assert calls["touch_sessions"] <= 2


async def test_without_redis_a_new_client_is_refused_and_an_old_one_kept(
    start_redis: StartRedis, room_service: RoomService
) -> None:
    """The stream stays open over the outage and goes on after it."""
    server = start_redis("--appendonly", "yes", "--appendfsync", "always")
    async with served(settings_for(server.url, room_service.url)) as (parts, api):
        session_id, other = await created(api), await created(api, "bob")
        async with following(parts.app, session_id) as stream:
            await stream.event("queued")
            server.kill()
            async with following(parts.app, other) as refused:
                assert refused.status == 503
            server.start()
            with contextlib.closing(redis.Redis.from_url(server.url)) as raw:
                await wait_until(lambda: bool(raw.ping()), "it answers")
            await wait_until(lambda: _stopped(api, session_id), "it can be stopped", timeout_s=10)
            assert (await stream.event("ended", timeout_s=10)).data["reason"] == "client_stop"


async def _stopped(api: Client, session_id: str) -> bool:
    answer = await api.stop(session_id)
    body: dict[str, Any] = answer.json()
    return answer.status_code == 200 and body["status"] == "closed"
