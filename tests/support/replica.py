"""How does a test run a replica and talk to it?

The whole replica on a real Redis, its HTTP side called in this process without a socket in
between. `served` gives one client per replica; start several to see that they agree.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest_asyncio

from control_plane.app import Replica
from control_plane.settings import ReplicaSettings
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.room_service import RoomService, running_room_service

BASE_URL = "http://127.0.0.1:8088"
API_KEY = "devkey"
API_SECRET = "a-secret-that-is-long-enough-for-the-tests"
SESSIONS = "/v1/stream/sessions"


class Client(httpx.AsyncClient):
    """An HTTP client of one replica, with the calls that most tests make."""

    async def create(self, **body: object) -> httpx.Response:
        """Create a session; alice's, unless the test says otherwise."""
        return await self.post(SESSIONS, json={"identity": "alice", **body})

    async def look(self, session_id: str) -> httpx.Response:
        """Ask how a session stands."""
        return await self.get(f"{SESSIONS}/{session_id}")

    async def stop(self, session_id: str) -> httpx.Response:
        """End a session."""
        return await self.delete(f"{SESSIONS}/{session_id}")


BeginNode = Callable[..., Awaitable[PlayedNode]]


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    """Check what every problem has, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, object] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert set(problem) >= {"type", "title", "detail", "message", "retryable"}
    return problem


def settings_for(redis_url: str, livekit_url: str, **options: object) -> ReplicaSettings:
    """Return a replica's settings for a test; nothing is read from or written to files."""
    known: dict[str, object] = {
        "redis_url": redis_url,
        "livekit_url": livekit_url,
        "livekit_api_key": API_KEY,
        "livekit_api_secret": API_SECRET,
        "deployment_id": "test",
        "data_dir": Path("/nonexistent"),
        "queue_size": 10,
        "audit_interval_s": 0,
    }
    return ReplicaSettings.model_validate(known | options)


@asynccontextmanager
async def served(
    settings: ReplicaSettings, dist: Path = Path("/nonexistent")
) -> AsyncIterator[tuple[Replica, Client]]:
    """Run one replica and return it with a client of its own."""
    replica = Replica(settings, dist=dist)
    transport = httpx.ASGITransport(replica.app, raise_app_exceptions=False)
    async with replica.running(), Client(transport=transport, base_url=BASE_URL) as client:
        yield replica, client


@pytest_asyncio.fixture
async def room_service() -> AsyncIterator[RoomService]:
    """LiveKit's room service, played."""
    async with running_room_service() as service:
        yield service


@pytest_asyncio.fixture
async def replica(
    redis_url: str, room_service: RoomService
) -> AsyncIterator[tuple[Replica, Client]]:
    """One running replica with a line of ten, and a client."""
    async with served(settings_for(redis_url, room_service.url)) as running:
        yield running


@pytest_asyncio.fixture
async def api(replica: tuple[Replica, Client]) -> Client:
    """A client of one running replica."""
    return replica[1]


@pytest_asyncio.fixture
async def begin_node(registry: Registry, redis_url: str) -> AsyncIterator[BeginNode]:
    """Begins the life of a played node."""
    async with AsyncExitStack() as stack:

        async def begin(**options: object) -> PlayedNode:
            node = await PlayedNode.begin(registry, redis_url, **options)  # type: ignore[arg-type]
            stack.callback(node.link.close)
            return node

        yield begin
