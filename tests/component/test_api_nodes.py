"""The operator's view of the nodes over HTTP, and the orders that are given there."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shared.play_facts import PlayFacts, play_text
from shared.states import NodeState
from shared.store import Registry
from tests.support.operator import open_sessions
from tests.support.played_fleet import gpus
from tests.support.replica import BeginNode, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService

NODES = "/v1/nodes"


async def node(api: Client, node_id: str = "node-a") -> dict[str, Any]:
    """Look at one node and at what surrounds it."""
    answer = await api.get(f"{NODES}/{node_id}")
    assert answer.status_code == 200, answer.text
    seen: dict[str, Any] = answer.json()
    return seen


async def order(api: Client, what: str, node_id: str = "node-a", **body: object) -> httpx.Response:
    """Give an order on the present sight of a node, unless the body names another."""
    known = {"version": (await node(api, node_id))["node"]["version"], **body}
    send = api.put if what == "capacity" else api.post
    return await send(f"{NODES}/{node_id}/{what}", json=known)


async def test_all_nodes_are_listed_with_what_an_operator_asks(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """State, slots, who is there, heartbeat, and what keeps one from serving."""
    first = await begin_node(capacity=2)
    await begin_node(node_id="node-b", state=NodeState.LOADING)
    (playing,) = await open_sessions(registry, 1)
    await first.play(playing)
    (pool,) = (await api.get(NODES)).json()["pools"]
    assert (pool["pool"], pool["total"]) == ("default", 2)
    busy, loading = pool["nodes"]
    assert (busy["node_id"], busy["state"], busy["sessions"]) == ("node-a", "busy", [playing])
    assert (busy["used"], busy["capacity"], busy["quarantined"]) == (1, 2, 0)
    assert (busy["service"], busy["version"], busy["troubles"]) == ("my_world.py", "", [])
    assert busy["beat_at"] > busy["registered_at"] - 1
    assert (loading["state"], loading["troubles"]) == ("loading", ["still loads its model"])


async def test_what_a_node_tells_of_its_gpus_and_its_play_is_shown(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """Memory, use and heat; who waits for a turn on its model."""
    played = await begin_node()
    played.gpus = gpus(61.5)
    await played.beat()
    told = PlayFacts(playing=1, fps=15.9, lease_waiting=3)
    await registry.note_play("default", "node-a", played.incarnation, play_text(told))
    shown = (await node(api))["node"]
    (gpu,) = shown["gpus"]
    assert (gpu["used_mib"], gpu["total_mib"], gpu["busy_percent"]) == (62_976, 81_920, 64)
    assert (shown["lease_waiting"], shown["fps"]) == (3, 15.9)


async def test_only_the_pools_that_are_asked_for_are_listed(
    redis_url: str, room_service: RoomService, begin_node: BeginNode
) -> None:
    """A node is found in whichever pool it is."""
    settings = settings_for(redis_url, room_service.url, pool="small,large")
    async with served(settings) as (_, api):
        await begin_node(pool="large")
        found = (await api.get(NODES, params={"pool": "large"})).json()["pools"]
        assert [(one["pool"], one["total"]) for one in found] == [("large", 1)]
        assert (await node(api))["pool"] == "large"
        assert (await order(api, "drain")).json()["node"]["admin"] == "draining"
        assert_problem(await api.get(NODES, params={"pool": "huge"}), 422, "unknown_pool")


async def test_a_drained_node_is_given_nobody_and_keeps_who_plays(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """The answer says how many that are, and what there is elsewhere."""
    first = await begin_node(capacity=2)
    (playing,) = await open_sessions(registry, 1)
    await first.play(playing)
    told = (await order(api, "drain")).json()
    assert (told["node"]["admin"], told["node"]["moves_at"]) == ("draining", None)
    assert (told["playing"], told["free_elsewhere"], told["waiting"]) == (1, 0, 0)
    assert (await api.create()).status_code == 202


async def test_a_drain_with_a_time_counts_down_until_a_resume_calls_it_off(
    api: Client, begin_node: BeginNode, registry: Registry
) -> None:
    """The node hears of both with its beats."""
    first = await begin_node()
    (playing,) = await open_sessions(registry, 1)
    await first.play(playing)
    told = (await order(api, "drain", in_s=90)).json()["node"]
    assert told["moves_at"] - told["beat_at"] == pytest.approx(90, abs=30)
    assert (await first.beat()).moves_in_s == pytest.approx(90, abs=30)
    told = (await order(api, "resume")).json()["node"]
    assert (told["admin"], told["moves_at"]) == ("open", None)
    assert (await first.beat()).moves_in_s is None


async def test_a_limit_is_kept_and_lifted(api: Client, begin_node: BeginNode) -> None:
    """What the node says of itself stays beside it."""
    await begin_node(capacity=3)
    told = (await order(api, "capacity", capacity=1)).json()["node"]
    assert (told["capacity"], told["reported_capacity"], told["admin_capacity"]) == (1, 3, 1)
    assert [(await api.create()).status_code for _ in range(2)] == [200, 202]
    told = (await order(api, "capacity", capacity=None)).json()["node"]
    assert (told["capacity"], told["admin_capacity"], told["used"]) == (3, None, 2)


@pytest.mark.parametrize("what", ["drain", "resume", "capacity"])
async def test_an_order_on_an_older_sight_is_refused(
    api: Client, begin_node: BeginNode, what: str
) -> None:
    """Two operators: whoever comes second looks again first."""
    await begin_node()
    assert (await order(api, "drain")).status_code == 200
    refused = await order(api, what, version="", capacity=1)
    detail = assert_problem(refused, 409, "node_changed")["message"]
    assert "version that this order names isn't the present one of 'node-a'" in str(detail)


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("drain", {}),
        ("drain", {"version": "", "in_s": -1}),
        ("drain", {"version": "", "in_s": "soon"}),
        ("resume", {"version": 7}),
        ("capacity", {"version": ""}),
        ("capacity", {"version": "", "capacity": -1}),
        ("capacity", {"version": "", "capacity": 1.5}),
    ],
)
async def test_an_order_that_is_none_is_refused(
    api: Client, begin_node: BeginNode, what: str, body: dict[str, object]
) -> None:
    """And changes nothing."""
    await begin_node()
    send = api.put if what == "capacity" else api.post
    assert_problem(await send(f"{NODES}/node-a/{what}", json=body), 422, "invalid_request")
    assert (await node(api))["node"]["version"] == ""


async def test_an_unknown_node_is_not_found(api: Client) -> None:
    """Neither to look at nor for an order."""
    assert_problem(await api.get(f"{NODES}/node-x"), 404, "unknown_node")
    sent = await api.post(f"{NODES}/node-x/resume", json={"version": ""})
    assert_problem(sent, 404, "unknown_node")
    assert_problem(await api.get(f"{NODES}/NO NODE"), 422, "invalid_name")
