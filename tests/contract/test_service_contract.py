"""What every bidirectional service must do, seen through the host that a node uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpu_node.media import ChunkReader, MediaChunk
from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import DEMO_WORLD, load
from tests.support.running_node import SERVICE
from tests.support.wait import scaled_s

SERVICES = Path(__file__).parent.parent / "services"
FILES = {
    "demo world": DEMO_WORLD,
    "synthetic": SERVICE,
    "for the reference": SERVICES / "telefuser_overlay.py",
    "for the reference, hooked": SERVICES / "telefuser_overlay_hooked.py",
}


@pytest_asyncio.fixture(params=FILES.values(), ids=FILES.keys())
async def host(request: pytest.FixtureRequest) -> AsyncIterator[ServiceHost]:
    """Each service file, loaded and started as a node does."""
    path: Path = request.param
    host = ServiceHost(load(path, gpu_num=1, gpu_ids=None))
    await host.start()
    yield host
    await host.aclose()


def config(name: str = "default-a") -> dict[str, Any]:
    """What a node hands over for a client who asked for nothing special."""
    return {"session_id": name, "control_idle_timeout": 10.0, "prompt": "a quiet street"}


async def take(host: ServiceHost, session: str, count: int) -> list[MediaChunk]:
    """The first chunks of a session, checked as before playing."""
    reader, taken = ChunkReader(16), []
    async with asyncio.timeout(scaled_s(10)):
        async for chunk in host.chunks(session):
            taken.append(reader.read(chunk))
            if len(taken) == count:
                break
    return taken


async def test_a_session_yields_valid_chunks_with_frames(host: ServiceHost) -> None:
    """Of one size, at a frame rate that can be played."""
    session = await host.create_session(config())
    chunks = await take(host, session, 3)
    assert all(chunk.frames for chunk in chunks)
    assert len({frame.shape for chunk in chunks for frame in chunk.frames}) == 1
    assert all(1 <= chunk.fps <= 120 for chunk in chunks)
    await host.close_session(session)


async def test_every_known_control_is_taken(host: ServiceHost) -> None:
    """In each of the shapes that the room lets through."""
    session = await host.create_session(config())
    for message in (
        {"type": "control_state", "controls": ["w", "ArrowLeft"]},
        {"type": "control_state", "controls": []},
        {"type": "control", "control": "d", "event": "press"},
        {"type": "control", "control": "d", "event": "release"},
        {"type": "control", "event": "reset_pose"},
        {"type": "prompt", "prompt": "a forest"},
        {"type": "reset"},
    ):
        await host.push(session, message)
    assert len(await take(host, session, 2)) == 2
    await host.close_session(session)


async def test_sessions_are_told_apart(host: ServiceHost) -> None:
    """Two at once, each with a stream of its own; one may close under the other."""
    first, second = [await host.create_session(config(name)) for name in ("default-a", "default-b")]
    assert first != second
    await take(host, first, 2)
    await host.close_session(first)
    assert len(await take(host, second, 2)) == 2
    await host.close_session(second)


async def test_closing_frees_the_session_for_the_next(host: ServiceHost) -> None:
    """As often as one likes, and whether or not its stream was ever read."""
    for turn in range(12):
        session = await host.create_session(config(f"default-{turn}"))
        async with asyncio.timeout(scaled_s(10)):
            await host.close_session(session)


async def test_ids_that_arent_there_do_no_harm(host: ServiceHost) -> None:
    """Messages and closes may come late."""
    session = await host.create_session(config())
    await host.close_session(session)
    await host.push(session, {"type": "control_state", "controls": ["w"]})
    await host.push("never-was", {"type": "stop"})
    await host.close_session(session)


async def test_capacity_is_at_least_one_and_never_above_the_operators(host: ServiceHost) -> None:
    """Whether the service sizes itself or not."""
    assert (await host.capacity(None)).sessions >= 1
    assert (await host.capacity(1)).sessions == 1
