"""How does a test run a node as the process that operators run?"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.states import NodeState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.wait import scaled_s, wait_until

PROCESS_S = 45.0
NOWHERE = {
    "LIVEKIT_URL": "ws://127.0.0.1:1",
    "LIVEKIT_API_KEY": "key",
    "LIVEKIT_API_SECRET": "a-secret-that-is-long-enough-for-the-tests",
}
"""A media server that isn't there, which is no reason for a node not to start."""


class NodeProcess:
    """One ``python -m gpu_node``; make it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process, node_id: str) -> None:
        self._process = process
        self.node_id = node_id

    @classmethod
    async def start(cls, redis_url: str, folder: Path, **options: str) -> NodeProcess:
        """Start it; *options* are settings by the names of their variables."""
        given = {
            "REDIS_URL": redis_url,
            "DATA_DIR": str(folder / "data"),
            "NODE_ID": "node-a",
            "DRAIN_GRACE_S": "0",
            "START_ATTEMPTS": "1",
            **NOWHERE,
            **options,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gpu_node",
            env={**os.environ, **{f"GREENROOM_{name}": value for name, value in given.items()}},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process, given["NODE_ID"])

    async def ready(self, registry: Registry) -> None:
        """Wait until sessions may be placed on it."""

        async def serving() -> bool:
            assert self._process.returncode is None, "the node has ended"
            nodes = (await registry.snapshot(POOL)).nodes
            states = [node.state for node in nodes if node.node_id == self.node_id]
            return bool(states) and states[0] in (NodeState.IDLE, NodeState.BUSY)

        await wait_until(serving, f"{self.node_id} takes sessions", timeout_s=PROCESS_S)

    def terminate(self) -> None:
        """Ask it to stop."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()

    def freeze(self) -> None:
        """Stop it in mid-step, as a machine does that has no time for it."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on where it stood."""
        self._process.send_signal(signal.SIGCONT)

    async def ended(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        out, err = await asyncio.wait_for(self._process.communicate(), scaled_s(PROCESS_S))
        assert self._process.returncode is not None
        return self._process.returncode, out.decode(), err.decode()

    async def aclose(self) -> None:
        """End it, however it's doing, and read what it still says."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


@asynccontextmanager
async def node_process(
    redis_url: str, registry: Registry, folder: Path, **options: str
) -> AsyncIterator[NodeProcess]:
    """Run a node process for the length of the block, ready when it begins."""
    process = await NodeProcess.start(redis_url, folder, **options)
    try:
        await process.ready(registry)
        yield process
        if process._process.returncode is None:
            process.terminate()
            code, _, err = await process.ended()
            assert (code, err) == (0, "")
    finally:
        await process.aclose()
