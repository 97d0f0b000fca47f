"""Does a client behind a load balancer hear of each change once, whichever replica dies meanwhile?

Three replica processes behind the shipped nginx and HAProxy. Each change of one session happens
while the replica that told the client of the one before is gone.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from shared.embedded.ports import free_port
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.load_balancer import PROGRAMS, LoadBalancer, is_installed, load_balancer
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL
from tests.support.replica import SESSIONS
from tests.support.replica_process import ReplicaProcess, replica_environment
from tests.support.wait import scaled_s, wait_until

pytestmark = pytest.mark.timeout(scaled_s(200))

REPLICAS = 3
ANSWER_S = 40.0
WORDS = {SessionState.ASSIGNED: "assigned", SessionState.CLOSED: "ended"}
_STREAMS = "greenroom_event_streams 1.0"


@dataclass(slots=True, kw_only=True)
class Follower:
    """A client's event stream: taken up again when it breaks, with the last id, as browsers do.

    Only changes are kept, which have an id; a place in line is told again to whoever comes back.
    """

    http: httpx.AsyncClient
    path: str
    told: list[dict[str, Any]] = field(default_factory=list)
    broken: int = 0
    refused: list[int] = field(default_factory=list)
    _last_id: str = ""

    async def run(self) -> None:
        """Follow until the session has ended."""
        while not self.told or self.told[-1]["event"] != "ended":
            headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
            try:
                async with self.http.stream("GET", self.path, headers=headers) as answer:
                    if answer.status_code != 200:
                        self.refused.append(answer.status_code)
                    await self._read(answer)
            except (httpx.RemoteProtocolError, httpx.ReadError):
                pass
            self.broken += 1

    async def _read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
                continue
            if "id" in fields:
                self._last_id = fields["id"]
                self.told.append({"event": fields["event"], **json.loads(fields["data"])})
            fields = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Three replicas, who stands in front of them, and a client."""

    front: LoadBalancer
    replicas: dict[int, ReplicaProcess]
    """By port."""
    http: httpx.AsyncClient
    redis_url: str
    folder: Path

    async def teller(self) -> int:
        """Return the port of the replica that has the client's stream."""
        found: list[int] = []

        async def one_has_it() -> bool:
            found[:] = [port for port in self.replicas if await self._has_stream(port)]
            return len(found) == 1

        await wait_until(one_has_it, "exactly one replica has the stream", ANSWER_S)
        return found[0]

    async def _has_stream(self, port: int) -> bool:
        try:
            answer = await self.http.get(f"http://127.0.0.1:{port}/metrics")
        except httpx.TransportError:
            return False
        return _STREAMS in answer.text

    def end(self, port: int, how: signal.Signals) -> None:
        """End a replica and return when it is gone."""
        self.replicas[port].signal(how)
        ended = self.replicas[port].result()
        assert ended == ((0, "") if how is signal.SIGTERM else (-how, ""))
        self.replicas[port].close()

    def start(self, port: int) -> None:
        """Start a replica that takes this port."""
        options = {"PORT": str(port), "DATA_DIR": str(self.folder / f"replica-{port}")}
        environment = replica_environment(self.redis_url, self.folder, **options)
        self.replicas[port] = ReplicaProcess(environment)
        self.replicas[port].address()


@pytest.fixture
def replicas() -> Iterator[dict[int, ReplicaProcess]]:
    """Those of the test; none outlives it."""
    started: dict[int, ReplicaProcess] = {}
    yield started
    for process in started.values():
        process.close()


@pytest_asyncio.fixture(params=PROGRAMS)
async def scene(
    request: pytest.FixtureRequest,
    replicas: dict[int, ReplicaProcess],
    redis_url: str,
    tmp_path: Path,
) -> AsyncIterator[Scene]:
    """All three serve, and so does the load balancer."""
    if not is_installed(request.param):
        pytest.skip(f"{request.param} isn't installed")
    ports = [free_port() for _ in range(REPLICAS)]
    front = load_balancer(request.param, tmp_path, free_port(), ports)
    async with AsyncExitStack() as exits:
        exits.enter_context(front.running())
        http = httpx.AsyncClient(base_url=front.address, timeout=ANSWER_S, trust_env=False)
        await exits.enter_async_context(http)
        scene = Scene(
            front=front, replicas=replicas, http=http, redis_url=redis_url, folder=tmp_path
        )
        for port in ports:
            scene.start(port)

        async def serves() -> bool:
            try:
                return (await http.get("/v1/service/health")).status_code == 200
            except httpx.TransportError:
                return False

        await wait_until(serves, "the load balancer answers", ANSWER_S)
        yield scene


async def waiting_session(registry: Registry) -> str:
    """Open a session that no slow machine runs out of time for."""
    session_id = new_session_id(POOL)
    limits = SessionLimits(
        queued_s=0, assigned_s=900, joining_s=900, starting_s=900, controller_s=0, room_empty_s=0
    )
    await registry.open(
        OpenRequest(
            pool=POOL,
            session_id=session_id,
            request=SessionRequest(identity="alice"),
            limits=limits,
            queue_size=9,
        )
    )
    return session_id


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
async def test_each_change_is_told_once_though_its_teller_is_gone(
    scene: Scene, registry: Registry, how: signal.Signals
) -> None:
    """From the line to the end, each step by another replica than the one before.

    No replica is ready here, since nobody plays LiveKit: HAProxy then asks any that lives.
    """
    session_id = await waiting_session(registry)
    follower = Follower(http=scene.http, path=f"{SESSIONS}/{session_id}/events")
    following = asyncio.create_task(follower.run())

    async def told(*said: tuple[str, str]) -> None:
        def so_far() -> bool:
            if following.done():
                following.result()
            return len(follower.told) >= len(said)

        await wait_until(so_far, f"it is told {said[-1]}", ANSWER_S)
        assert [(event["event"], event["status"]) for event in follower.told] == [*said]

    said = [("queued", "queued")]
    await told(*said)
    node: PlayedNode | None = None
    for step in (
        SessionState.ASSIGNED,
        SessionState.JOINING_ROOM,
        SessionState.STARTING_PIPELINE,
        SessionState.RUNNING,
        SessionState.CLOSED,
    ):
        gone = await scene.teller()
        await asyncio.to_thread(scene.end, gone, how)
        if node is None:
            node = await PlayedNode.begin(registry, scene.redis_url, ttl_s=900)
        elif step is SessionState.CLOSED:
            await node.end(session_id, Reason.COMPLETED)
        else:
            await registry.advance(
                node._owner(session_id), step, stamp=node._stamp, pipeline_session_id="world"
            )
        said.append((WORDS.get(step, "state"), step.value))
        await told(*said)
        await asyncio.to_thread(scene.start, gone)
    async with asyncio.timeout(scaled_s(ANSWER_S)):
        await following
    assert node is not None
    await node.retire()
    assert follower.refused == []
    assert follower.broken >= len(said) - 1
