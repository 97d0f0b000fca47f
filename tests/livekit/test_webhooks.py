"""A real LiveKit server tells a replica what happens in its rooms: what is put right at once?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from livekit import rtc

from shared.embedded.ports import free_port
from shared.ids import WorkerIdentity
from shared.records import Owner
from shared.rooms.admin import RoomAdmin
from shared.rooms.webhooks import WEBHOOK_PATH
from shared.states import Reason
from shared.store import Registry
from tests.livekit.conftest import DEPLOYMENT, admin_for, tokens_for
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, running_livekit
from tests.support.operator import open_sessions
from tests.support.played_node import PlayedNode
from tests.support.replica_process import Start, start_replica
from tests.support.wait import wait_until

__all__ = ["start_replica"]


class Hall:
    """A replica, the media server that tells it things, and a session that was given back."""

    def __init__(self, server: LiveKitServer, registry: Registry, address: str) -> None:
        self.server, self.registry, self.address = server, registry, address
        self.admin: RoomAdmin = admin_for(server)
        self.tokens = tokens_for(server)

    async def metrics(self) -> str:
        """What the replica has counted."""
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(f"{self.address}/metrics")).text


@pytest.fixture(scope="module")
def port() -> int:
    """Where the replicas of this file listen, one after the other."""
    return free_port()


@pytest.fixture(scope="module")
def told_server(port: int) -> Iterator[LiveKitServer]:
    """A media server that tells that port what happens."""
    with running_livekit(f"http://127.0.0.1:{port}{WEBHOOK_PATH}") as server:
        yield server


@pytest.fixture
async def hall(
    port: int, told_server: LiveKitServer, registry: Registry, start_replica: Start
) -> AsyncIterator[Hall]:
    """A replica that listens, and everything around it."""
    replica = start_replica(
        PORT=str(port),
        LIVEKIT_URL=told_server.url,
        LIVEKIT_API_KEY=told_server.api_key,
        LIVEKIT_API_SECRET=told_server.api_secret,
        DEPLOYMENT_ID=DEPLOYMENT,
    )
    hall = Hall(told_server, registry, await asyncio.to_thread(replica.address))
    yield hall
    await hall.admin.aclose()


async def given_back(hall: Hall, redis_url: str) -> tuple[str, WorkerIdentity]:
    """Have a session that waits again without anybody's knowing; returns its former worker."""
    node = await PlayedNode.begin(hall.registry, redis_url)
    (session_id,) = await open_sessions(hall.registry, 1)
    await node.play(session_id)
    epoch = node.holds(session_id).epoch
    owner = Owner(
        node_id=node.node_id, incarnation=node.incarnation, session_id=session_id, epoch=epoch
    )
    await hall.registry.give_back(owner, why="media_lost", capacity=0, media_ok=False)
    node.link.close()
    return session_id, WorkerIdentity(node_id=node.node_id, epoch=epoch, attempt=1)


async def test_a_zombie_is_out_and_the_controller_knows_as_soon_as_they_come(
    hall: Hall, redis_url: str
) -> None:
    """Both within moments; the reconciler alone would take half a minute."""
    session_id, former = await given_back(hall, redis_url)
    alice, zombie = LivePerson(), rtc.Room()
    await alice.enter(hall.server.url, hall.tokens.controller(session_id, "ann"))
    await wait_until(lambda: alice.of_type("requeued"), "the return is told", timeout_s=10)
    assert [told["reason"] for told in alice.of_type("requeued")] == ["media_lost"]
    await zombie.connect(hall.server.url, hall.tokens.worker(session_id, former))
    await wait_until(lambda: not zombie.isconnected(), "the zombie is out", timeout_s=10)
    identities = [one.identity for one in await hall.admin.participants(session_id)]
    assert identities == ["ann"]
    assert 'greenroom_webhooks_total{outcome="refused"} 0.0' in await hall.metrics()
    await alice.leave()


async def test_the_room_of_an_ended_session_that_a_page_makes_anew_is_gone_at_once(
    hall: Hall,
) -> None:
    """A token outlives its session, and whoever joins makes the room."""
    (session_id,) = await open_sessions(hall.registry, 1)
    await hall.registry.cancel(session_id, Reason.CLIENT_STOP)
    alice = LivePerson()
    await alice.enter(hall.server.url, hall.tokens.controller(session_id, "ann"))
    await wait_until(lambda: not alice.room.isconnected(), "she is out", timeout_s=10)

    async def is_gone() -> bool:
        return session_id not in [room.session_id for room in await hall.admin.rooms()]

    await wait_until(is_gone, "the room is gone")
    await alice.leave()
