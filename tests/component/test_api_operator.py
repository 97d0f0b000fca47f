"""What operators see live over HTTP: overviews, what moves in between, stories; and ending one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from control_plane import operator_feed
from control_plane.app import Replica
from shared.ids import new_session_id
from shared.states import Reason
from shared.store import Registry
from tests.support.event_stream import Stream, Told, streaming
from tests.support.operator import open_sessions
from tests.support.replica import SESSIONS, BeginNode, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService

EVENTS = "/v1/admin/events"
Running = tuple[Replica, Client]


async def overview(stream: Stream) -> Told:
    """Return the next whole overview; what only moves is passed over."""
    told = await stream.next()
    while told.event != "overview":
        told = await stream.next()
    return told


def only_pool(told: Told) -> dict[str, Any]:
    """Return the one pool of an overview."""
    (pool,) = cast("list[dict[str, Any]]", told.data["pools"])
    return pool


async def test_an_overview_shows_the_line_the_nodes_and_the_sessions(
    replica: Running, begin_node: BeginNode, registry: Registry
) -> None:
    """With numbers that count all; who anybody is stays out."""
    node = await begin_node()
    playing, waiting = await open_sessions(registry, 2)
    await node.play(playing)
    async with streaming(replica[0].app, EVENTS) as stream:
        pool = only_pool(await overview(stream))
    counts = pool["counts"]
    assert (counts["waiting"], counts["sessions"]) == (1, {"queued": 1, "running": 1})
    assert (counts["slots"], counts["slots_taken"], counts["nodes"]) == (1, 1, {"busy": 1})
    assert [(one["position"], one["session_id"]) for one in pool["line"]] == [(1, waiting)]
    assert [one["node_id"] for one in pool["nodes"]] == ["node-a"]
    (shown,) = pool["sessions"]
    assert (shown["session_id"], shown["state"], shown["people"]) == (playing, "running", 1)
    assert shown["identity"] is pool["line"][0]["identity"] is None


async def test_an_overview_is_bounded_and_its_numbers_count_all(
    replica: Running, begin_node: BeginNode, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first in line, the newest on stage, the last that ended."""
    for name in ("LINE_SHOWN", "ON_STAGE_SHOWN", "ENDED_SHOWN", "NODES_SHOWN"):
        monkeypatch.setattr(operator_feed, name, 1)
    node = await begin_node(capacity=4)
    await begin_node(node_id="node-b", capacity=0)
    names = await open_sessions(registry, 6)
    for session_id in names[:4]:
        await node.play(session_id)
    node.capacity = 2  # nobody comes for those who end now
    await node.beat()
    for session_id in names[:2]:
        await node.end(session_id, Reason.COMPLETED)
    await node.beat()
    async with streaming(replica[0].app, EVENTS) as stream:
        pool = only_pool(await overview(stream))
    assert [one["session_id"] for one in pool["line"]] == [names[4]]
    assert [one["session_id"] for one in pool["sessions"]] == [names[3], names[1]]
    assert [one["node_id"] for one in pool["nodes"]] == ["node-a"]
    counts = pool["counts"]
    assert (counts["waiting"], counts["nodes"]) == (2, {"busy": 1, "idle": 1})
    assert counts["sessions"] == {"queued": 2, "running": 2}


async def test_whoever_asks_for_it_sees_who_everybody_is(
    replica: Running, registry: Registry
) -> None:
    """On that stream alone."""
    await open_sessions(registry, 1)
    async with streaming(replica[0].app, f"{EVENTS}?identities=1") as stream:
        assert only_pool(await overview(stream))["line"][0]["identity"] == "ann"
    assert (await replica[1].get("/v1/admin/overview")).json()["pools"][0]["line"][0][
        "identity"
    ] is None


async def test_a_change_brings_a_new_overview_and_the_rest_only_what_moves(
    replica: Running, begin_node: BeginNode, registry: Registry
) -> None:
    """A heartbeat is no change, an ended session is one."""
    node = await begin_node()
    (playing,) = await open_sessions(registry, 1)
    await node.play(playing)
    async with streaming(replica[0].app, EVENTS) as stream:
        first = only_pool(await overview(stream))
        await node.beat()
        moving = only_pool(await stream.event("moving"))
        while moving["nodes"][0]["beat_at"] == first["nodes"][0]["beat_at"]:
            moving = only_pool(await stream.event("moving"))
        await node.end(playing, Reason.SERVICE_ERROR, "it broke")
        ended = only_pool(await overview(stream))
    (shown,) = ended["sessions"]
    assert (shown["state"], shown["reason"], shown["error"]) == (
        "failed",
        "service_error",
        "it broke",
    )
    assert (ended["counts"]["failed"], ended["counts"]["sessions"]) == (1, {})


async def test_whoever_comes_back_knowing_it_gets_no_overview_again(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """On another replica, too; with another id the whole comes."""
    await begin_node()
    settings = settings_for(redis_url, room_service.url)
    async with served(settings) as (one, _), served(settings) as (two, _):
        async with streaming(one.app, EVENTS) as stream:
            known = (await overview(stream)).name
        async with streaming(two.app, EVENTS, known) as stream:
            await stream.event("moving")
        async with streaming(two.app, EVENTS, "something else") as stream:
            assert (await stream.event("overview")).name == known


async def test_however_many_watch_the_registry_is_asked_once(
    replica: Running, registry: Registry
) -> None:
    """Two get the very same look; nobody watches, nothing is read."""
    app, feed = replica[0].app, replica[0].feed
    assert feed._latest is None
    async with streaming(app, EVENTS) as one, streaming(app, EVENTS) as two:
        first, second = await overview(one), await overview(two)
        assert first.data["at"] == second.data["at"]
        assert (await one.event("moving")).data == (await two.event("moving")).data
    assert not feed._watchers


async def test_a_stopping_replica_sends_its_watchers_elsewhere(
    redis_url: str, room_service: RoomService
) -> None:
    """With a hint when to come back, and an end."""
    async with (
        served(settings_for(redis_url, room_service.url)) as (one, _),
        streaming(one.app, EVENTS) as stream,
    ):
        await overview(stream)
        one.feed.say_goodbye()
        told = await stream.next()
        while told.event == "moving":
            told = await stream.next()
        assert told.retry_ms is not None
        await stream.ended()


async def test_a_story_tells_what_happened_in_words(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """And for one that waits, what it waits for."""
    node = await begin_node()
    playing, waiting = await open_sessions(registry, 2)
    await node.play(playing)
    told = (await api.get(f"{SESSIONS}/{playing}/story")).json()
    assert (told["complete"], told["waits_for"], told["session"]["node_id"]) == (
        True,
        None,
        "node-a",
    )
    assert [step["what"] for step in told["steps"]][:2] == ["queued", "assigned"]
    assert told["steps"][0]["says"] == "came into the line"
    told = (await api.get(f"{SESSIONS}/{waiting}/story")).json()
    waits = told["waits_for"]
    assert (waits["position"], waits["slots"], waits["slots_taken"]) == (1, 1, 1)
    assert [one["session_id"] for one in waits["holders"]] == [playing]


async def test_an_operator_ends_a_session_in_line_or_on_stage(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """In the operator's name; once more changes nothing."""
    node = await begin_node()
    playing, waiting = await open_sessions(registry, 2)
    await node.play(playing)
    for session_id, status in ((waiting, "closed"), (playing, "draining")):
        for _ in range(2):
            answer = await api.post(f"{SESSIONS}/{session_id}/cancel")
            assert (answer.status_code, answer.json()["status"]) == (200, status)
        assert (await api.look(session_id)).json()["reason"] == "admin"


async def test_nobody_has_the_story_of_an_unknown_session(api: Client) -> None:
    """Nor can it be ended."""
    for unknown in (new_session_id("default"), "nobody"):
        assert_problem(await api.get(f"{SESSIONS}/{unknown}/story"), 404, "unknown_session")
        assert_problem(await api.post(f"{SESSIONS}/{unknown}/cancel"), 404, "unknown_session")
