"""How does a test run a whole node without LiveKit and without a model?

A real `Agent` with a real registry, in this process; rooms are those of a `FakeVenue`, the service
is `synthetic_service`. The test opens sessions in the registry as a replica does, and enters the
rooms as controller or viewer::

    async with running_node(redis_url, registry) as node:
        session_id = await node.open(chunks=3)
        alice = node.venue.stage(session_id).enter("alice")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gpu_node.agent import Agent, AgentParts
from gpu_node.heartbeat import NodeLease
from gpu_node.services.host import ServiceHost
from gpu_node.settings import NodeSettings
from shared.clock import SystemClock
from shared.errors import RoomsUnavailable, StoreUnavailable
from shared.ids import new_session_id
from shared.records import (
    Beat,
    BeatReply,
    OpenRequest,
    SessionLimits,
    SessionRecord,
    SessionRequest,
)
from shared.room_status import encode_status
from shared.states import NodeState, SessionState
from shared.store import BeatLink, Registry
from tests.support import synthetic_service
from tests.support.fake_room import FakePerson, FakeVenue
from tests.support.redis_server import POOL
from tests.support.synthetic_service import Journal
from tests.support.wait import scaled_s, wait_until

SERVICE = Path(synthetic_service.__file__)


class CuttableLink:
    """The beat's way to the registry; while cut, no beat arrives."""

    def __init__(self, url: str) -> None:
        self._link = BeatLink(url, POOL)
        self.cut = False

    def beat(self, beat: Beat) -> BeatReply:
        """Send, unless cut."""
        if self.cut:
            raise StoreUnavailable(why="cut by the test")
        return self._link.beat(beat)

    def close(self) -> None:
        """Close the real one."""
        self._link.close()


class FakeKeeper:
    """The media server's side of rooms: notes what it's asked."""

    def __init__(self, venue: FakeVenue) -> None:
        self._venue = venue
        self.ensured: list[tuple[str, int]] = []
        self.deleted: list[str] = []

    async def ensure(self, session_id: str, epoch: int) -> None:
        """Fails while the venue is out."""
        if not self._venue.reachable:
            raise RoomsUnavailable(why="the fake venue is out")
        self.ensured.append((session_id, epoch))

    async def delete(self, session_id: str) -> None:
        """Put everybody out."""
        self.deleted.append(session_id)
        self._venue.stage(session_id).delete()

    async def send_status(self, session_id: str, body: Mapping[str, object]) -> None:
        """Everybody hears it, workers aside; fails while the venue is out."""
        if not self._venue.reachable:
            raise RoomsUnavailable(why="the fake venue is out")
        for person in self._venue.stage(session_id).people.values():
            person.statuses.append(json.loads(encode_status(body)))

    async def probe(self) -> bool:
        """Whether the venue is reachable."""
        return self._venue.reachable

    async def aclose(self) -> None:
        """Nothing to close."""


class RunningNode:
    """One node and what stands around it."""

    def __init__(self, redis_url: str, registry: Registry, **options: Any) -> None:
        self.registry = registry
        self.venue = FakeVenue()
        self.keeper = FakeKeeper(self.venue)
        self.link = CuttableLink(redis_url)
        self.stop = asyncio.Event()
        gpus = options.pop("gpus", None)
        self.settings = node_settings(redis_url, **options)
        clock = SystemClock()
        lease = NodeLease(clock, self.settings.node_ttl_s, self.settings.silence_margin_s)
        parts = AgentParts(
            registry=Registry.connect(redis_url),
            link=self.link,
            keeper=self.keeper,
            open_room=self.venue,
            lease=lease,
            clock=clock,
            release="0.0.test",
            gpus=gpus,
        )
        self.agent = Agent(self.settings, parts)
        self.in_haste = False
        """The stop is a Ctrl-C."""
        run = self.agent.run(self.stop, in_haste=lambda: self.in_haste)
        self.task = asyncio.create_task(run, name="node")

    @property
    def journal(self) -> Journal:
        """What the service noted."""
        host = self.agent.service.host
        assert isinstance(host, ServiceHost), "in a child there is no looking inside"
        journal: Journal = host._loaded.service.journal  # type: ignore[attr-defined]
        return journal

    async def ready(self, timeout_s: float = 20.0) -> None:
        """Wait until sessions may be placed here."""

        async def placed() -> bool:
            if self.task.done():
                self.task.result()
            nodes = (await self.registry.snapshot(POOL)).nodes
            mine = [node for node in nodes if node.node_id == self.settings.node_id]
            return (
                bool(mine)
                and mine[0].state in (NodeState.IDLE, NodeState.BUSY)
                and mine[0].capacity > 0
            )

        await wait_until(placed, "the node takes sessions", timeout_s)

    async def open(
        self,
        *,
        identity: str = "alice",
        limits: SessionLimits | None = None,
        session_id: str | None = None,
        **config: object,
    ) -> str:
        """Ask for a session as a replica does; the config tells the service what to do."""
        session_id = session_id or new_session_id(POOL)
        await self.registry.open(
            OpenRequest(
                pool=POOL,
                session_id=session_id,
                request=SessionRequest(identity=identity, config=dict(config)),
                limits=limits or SessionLimits(),
                queue_size=10,
            )
        )
        return session_id

    async def play(self, **options: Any) -> tuple[str, FakePerson]:
        """Open a session, enter as its controller and wait for a frame."""
        session_id = await self.open(**options)
        alice = self.venue.stage(session_id).enter(options.get("identity", "alice"))
        await wait_until(lambda: alice.frames, "the first frame")
        return session_id, alice

    async def reaches(self, session_id: str, state: SessionState) -> SessionRecord:
        """Wait until the session is in *state*."""
        record: SessionRecord | None = None

        async def there() -> bool:
            nonlocal record
            record = await self.registry.read(session_id)
            return record.state is state

        await wait_until(there, f"the session is {state}", timeout_s=10)
        assert record is not None
        return record

    async def aclose(self) -> None:
        """Ask it to stop, and see that it does."""
        self.stop.set()
        await asyncio.wait_for(asyncio.shield(self.task), scaled_s(15))


def node_settings(redis_url: str, **options: Any) -> NodeSettings:
    """Settings of a test's node: quick beats, nothing waited for at the end."""
    given: dict[str, Any] = {
        "redis_url": redis_url,
        "livekit_url": "ws://127.0.0.1:1",
        "livekit_api_key": "key",
        "livekit_api_secret": SecretStr("secret"),
        "deployment_id": "test",
        "node_id": "node-a",
        "pipe_path": SERVICE,
        "max_sessions_per_worker": 1,
        "beat_interval_s": 0.25,
        "drain_grace_s": 0.0,
        "start_attempts": 1,
        "skip_validation": True,  # their services misbehave on purpose
    }
    return NodeSettings(**{**given, **options})


@asynccontextmanager
async def running_node(
    redis_url: str, registry: Registry, *, ready_in_s: float = 20.0, **options: Any
) -> AsyncIterator[RunningNode]:
    """Run a node for the length of the block, ready when it begins."""
    node = RunningNode(redis_url, registry, **options)
    try:
        await node.ready(ready_in_s)
        yield node
    finally:
        if not node.task.done():
            await node.aclose()
