"""How does a test let a program of others loose on a whole replica?

The replica is a process of its own, closed, on a real Redis, with one node that takes nobody and
some sessions in line. LiveKit's room service is played in a thread, since who tests from outside
blocks the test's own event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from shared.store import Registry
from tests.support.closed import ADMIN_KEY
from tests.support.played_node import PlayedNode
from tests.support.replica import SESSIONS
from tests.support.replica_process import Start
from tests.support.room_service import running_room_service
from tests.support.wait import scaled_s, wait_until_sync

_NEVER_S = 100_000.0


@dataclass(frozen=True, slots=True)
class Target:
    """What there is to be tried."""

    address: str
    headers: dict[str, str]
    session_ids: list[str]
    node_ids: list[str]


@contextmanager
def target(redis_url: str, start_replica: Start, *, sessions: int) -> Iterator[Target]:
    """Run it for the length of the block; it must still be well at the end."""
    with _rooms_in_a_thread() as livekit_url:
        replica = start_replica(
            LIVEKIT_URL=livekit_url, ADMIN_KEY=ADMIN_KEY, QUEUE_SIZE="10000", READ_RATE="0",
            CREATE_RATE="0",
        )  # fmt: skip
        address = replica.address()
        node_id = asyncio.run(_begin_node(redis_url))
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx.Client(base_url=address, headers=headers, timeout=scaled_s(10)) as client:
            wait_until_sync(
                lambda: client.get("/v1/service/ready").is_success, "it is ready", timeout_s=20
            )
            created = [
                client.post(SESSIONS, json={"identity": f"person-{number}"}).raise_for_status()
                for number in range(sessions)
            ]
            ids = [str(answer.json()["session_id"]) for answer in created]
            yield Target(address, headers, ids, [node_id])
            assert client.get("/v1/stream/health").json()["redis_connected"]


async def _begin_node(redis_url: str) -> str:
    registry = Registry.connect(redis_url)
    node = await PlayedNode.begin(registry, redis_url, capacity=1, ttl_s=_NEVER_S)
    node.link.close()
    await registry.aclose()
    return node.node_id


@contextmanager
def _rooms_in_a_thread() -> Iterator[str]:
    loop, url = asyncio.new_event_loop(), list[str]()
    is_up, is_over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with running_room_service() as rooms:
            url.append(rooms.url)
            is_up.set()
            await is_over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert is_up.wait(scaled_s(10))
        yield url[0]
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()
