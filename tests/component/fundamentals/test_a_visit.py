"""How Greenroom is used over HTTP, one idea after the other.

A visitor asks for a session and gets a slot or a place in line. Meanwhile a node plays what it was
given. Each test shows one thing; read them from top to bottom.
"""

from __future__ import annotations

import asyncio

from shared.states import Reason
from tests.support.replica import SESSIONS, BeginNode, Client
from tests.support.wait import wait_until


async def test_a_visitor_gets_a_free_slot(api: Client, begin_node: BeginNode) -> None:
    """One POST is all: the answer names the room and carries the token to enter it."""
    await begin_node(capacity=1)

    visit = await api.post(SESSIONS, json={"identity": "alice", "prompt": "a quiet harbour"})

    assert visit.status_code == 200
    assert visit.json()["status"] == "assigned"
    assert visit.json()["room"]
    assert visit.json()["token"]


async def test_a_second_visitor_waits(api: Client, begin_node: BeginNode) -> None:
    """When all slots are taken the answer is a place in line, and it is honest."""
    await begin_node(capacity=1)
    await api.create(identity="alice")

    visit = await api.create(identity="bob")

    assert visit.status_code == 202
    assert visit.json()["queue_position"] == 1


async def test_looking_shows_the_way(api: Client, begin_node: BeginNode) -> None:
    """GET tells each step from the line to the stage."""
    node = await begin_node(capacity=1)
    session_id = (await api.create()).json()["session_id"]
    assert (await api.look(session_id)).json()["status"] == "assigned"

    await node.play(session_id)

    assert (await api.look(session_id)).json()["status"] == "running"


async def test_the_line_is_served_in_order(api: Client, begin_node: BeginNode) -> None:
    """Whoever came first is served first; nobody overtakes."""
    node = await begin_node(capacity=1)
    names = ("alice", "bob", "carol")
    visits = [(await api.create(identity=name)).json()["session_id"] for name in names]

    served = []
    for session_id in visits:
        await node.play(session_id)
        served.append((await api.look(session_id)).json()["status"])
        await node.end(session_id, Reason.COMPLETED)

    assert served == ["running", "running", "running"]


async def test_leaving_makes_room_for_the_next(api: Client, begin_node: BeginNode) -> None:
    """DELETE ends a session; once its node has cleaned up, the next one has the slot."""
    node = await begin_node(capacity=1)
    alice = (await api.create(identity="alice")).json()["session_id"]
    bob = (await api.create(identity="bob")).json()["session_id"]
    await node.play(alice)

    leaving = asyncio.create_task(api.stop(alice))

    async def told_to_stop() -> bool:
        return alice in {kill.session_id for kill in (await node.beat()).kills}

    await wait_until(told_to_stop, "the node is told to stop alice's session")
    await node.end(alice, Reason.CLIENT_STOP)

    assert (await leaving).json()["status"] == "closed"
    assert (await api.look(bob)).json()["status"] == "assigned"


async def test_friends_may_watch(api: Client, begin_node: BeginNode) -> None:
    """Anybody who knows the session gets a token that lets them see and nothing else."""
    await begin_node(capacity=1)
    session_id = (await api.create(identity="alice")).json()["session_id"]

    ticket = await api.post(f"{SESSIONS}/{session_id}/tokens", json={"identity": "bob"})

    assert ticket.json()["role"] == "viewer"


async def test_the_session_token_is_a_durable_ticket(api: Client) -> None:
    """With it the owner gets a fresh room token at any time, from any device."""
    visit = (await api.create(identity="alice")).json()

    fresh = await api.post(
        f"{SESSIONS}/{visit['session_id']}/tokens",
        json={"role": "controller"},
        headers={"Authorization": f"Bearer {visit['session_token']}"},
    )

    assert fresh.json()["role"] == "controller"


async def test_a_create_call_may_be_repeated(api: Client) -> None:
    """A client that lost the answer asks again under the same key and stays where it was."""
    headers = {"Idempotency-Key": "my-visit"}
    body = {"identity": "alice"}

    first = await api.post(SESSIONS, json=body, headers=headers)
    again = await api.post(SESSIONS, json=body, headers=headers)

    assert again.json()["session_id"] == first.json()["session_id"]
    assert again.json()["queue_position"] == 1
