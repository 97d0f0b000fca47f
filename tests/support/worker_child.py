"""How does a test run a service in a child of its own, and see what is left of it?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from gpu_node.worker.host import ChildHost, ChildPlan
from shared.settings import child_environment
from tests.support.wait import scaled_s

SERVICES = Path(__file__).parents[1] / "services"
HOSTILE = SERVICES / "hostile_at_will.py"
SOON_S = scaled_s(2.0)
"""When a child that is made to be stuck is found; for others that would be too soon."""


def service_file(folder: Path, like: Path, more: str = "") -> Path:
    """A service file of the test's own: one that there is, and what it has besides."""
    path = folder / "service.py"
    path.write_text(like.read_text() + more)
    return path


def worker_pids(parent: int | None = None) -> list[int]:
    """The children of this process (or of *parent*) that run a service."""
    return [
        process.pid
        for process in psutil.Process(parent).children(recursive=True)
        if _is_worker(process)
    ]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "gpu_node.worker" in process.cmdline() and process.status() != "zombie"
    except psutil.Error:
        return False


def shared_memory() -> frozenset[str]:
    """Slots that this process has mapped, by inode; some may be other tests' leavings."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return frozenset(line.split()[4] for line in maps if "memfd:greenroom-chunk" in line)


def plan_for(path: Path, folder: Path, **options: Any) -> ChildPlan:
    """A child that is ended soon when it won't end."""
    return ChildPlan(
        path=path,
        gpu_ids=None,
        env=child_environment({}),
        log=folder / "worker.log",
        stop_within_s=SOON_S,
        **options,
    )


@asynccontextmanager
async def child_host(path: Path, folder: Path, **options: Any) -> AsyncIterator[ChildHost]:
    """Run a service in a child for the length of the block; nothing of it is left after that."""
    host = ChildHost(plan_for(path, folder, **options))
    try:
        await host.start()
        host.serve()
        yield host
    finally:
        await host.aclose()
    assert host.pid is None
