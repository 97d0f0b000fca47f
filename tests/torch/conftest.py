"""The torch world, loaded and started as a node does, with four slots."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import load

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]

TORCH_WORLD = Path(__file__).parents[2] / "gpu_node" / "services" / "torch_world.py"


@pytest_asyncio.fixture
async def host() -> AsyncIterator[ServiceHost]:
    """On the processor, or on the GPU if there is one."""
    host = ServiceHost(load(TORCH_WORLD, gpu_num=1, gpu_ids=None))
    await host.start()
    await host.capacity(4)
    yield host
    await host.aclose()
