"""A service host around a service object of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import LoadedService


@asynccontextmanager
async def hosted(service: Any) -> AsyncIterator[ServiceHost]:
    """Run a host around *service*."""
    host = ServiceHost(LoadedService(path=Path("svc.py"), module_name="svc", service=service))
    try:
        await host.start()
        yield host
    finally:
        await host.aclose()
