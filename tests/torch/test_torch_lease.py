"""Does a model that is too slow for two give each of them its turn?"""

from __future__ import annotations

import asyncio
from typing import Any

from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import load
from tests.support.wait import scaled_s
from tests.torch.conftest import TORCH_WORLD


async def test_players_of_a_slow_model_wait_for_turns_of_a_chunk() -> None:
    """The lease is asked for by the service's own measure, after its start, and all play."""
    loaded = load(TORCH_WORLD, gpu_num=1, gpu_ids=None)
    loaded.service.turns_above = 0.0  # type: ignore[attr-defined]
    host = ServiceHost(loaded)
    await host.start()
    await host.capacity(3)
    sessions = [await host.create_session({"prompt": str(n)}) for n in range(3)]

    async def play(session: str) -> list[dict[str, Any]]:
        taken = []
        async for chunk in host.chunks(session):
            if chunk["type"] == "chunk":
                taken.append(chunk)
            if len(taken) == 5:
                return taken
        raise AssertionError("the stream ended")

    async with asyncio.timeout(scaled_s(20)):
        played = await asyncio.gather(*(play(session) for session in sessions))
        for session in sessions:
            await host.close_session(session)
        await host.aclose()
    waits = [chunk["lease_wait_seconds"] for taken in played for chunk in taken]
    assert len(waits) == 15
    assert max(waits) > 0
