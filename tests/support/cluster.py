"""How does a test run several replicas and nodes as the processes that operators run?

`Cluster` starts ``greenroom api`` and ``greenroom node`` against one Redis and one LiveKit, keeps
them between tests, and replaces those that a test has ended. What a process prints goes to a file,
since some of them outlive the test that reads it.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.states import NodeState
from shared.store import Registry
from tests.support.all_in_one import GREENROOM, clean_environment
from tests.support.livekit_server import LiveKitServer
from tests.support.redis_server import POOL
from tests.support.wait import wait_until, wait_until_sync

START_S = 40.0
REPLICAS = ("a", "b")
NODES = 2
NODE_TTL_S = 6.0

SERVICE = """\
import asyncio
import numpy


class Dusk:
    def start(self):
        pass

    def stop(self):
        pass

    def create_session(self, config):
        return config["session_id"]

    def push_chunk(self, session_id, chunk):
        pass

    def close_session(self, session_id):
        pass

    async def pull_chunks(self, session_id):
        for light in range(1_000_000):
            yield {"frames": [numpy.full((90, 160, 3), 60 + light % 120, numpy.uint8)], "fps": 10}
            await asyncio.sleep(0.1)


def get_service():
    return Dusk()
"""


class Member:
    """One process of the cluster."""

    def __init__(self, name: str, folder: Path, *arguments: str, **environment: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(GREENROOM), *arguments],
                cwd=folder,
                env=clean_environment(**environment),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def is_running(self) -> bool:
        """Whether it hasn't ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop."""
        self._process.send_signal(signal.SIGTERM)

    async def status(self, timeout_s: float = START_S) -> int:
        """Wait for its end and return its exit status."""
        await wait_until(lambda: not self.is_running, f"{self.name} ends", timeout_s)
        return self._process.returncode


class Cluster:
    """Two replicas and two nodes of one slot each; `complete` makes it so before a test."""

    def __init__(self, folder: Path, redis_url: str, livekit: LiveKitServer) -> None:
        self._folder = folder
        self._service = folder / "dusk.py"
        self._service.write_text(SERVICE)
        self._environment = {
            "GREENROOM_REDIS_URL": redis_url,
            "GREENROOM_LIVEKIT_URL": livekit.url,
            "GREENROOM_LIVEKIT_API_KEY": livekit.api_key,
            "GREENROOM_LIVEKIT_API_SECRET": livekit.api_secret,
            "GREENROOM_DEPLOYMENT_ID": "cluster",
            "GREENROOM_QUEUE_LEASE_S": "0",
            "GREENROOM_NODE_TTL_S": str(NODE_TTL_S),
            "GREENROOM_BEAT_INTERVAL_S": "1.0",
            "GREENROOM_SILENCE_MARGIN_S": "2.0",
        }
        self._names = (f"node-{number}" for number in itertools.count(1))
        self.replicas: dict[str, Member] = {}
        self.nodes: dict[str, Member] = {}

    def start_node(self) -> Member:
        """Start a node under a name that none had before, so that no lease is waited for."""
        name = next(self._names)
        asked = ("--node-id", name, "--max-sessions-per-worker", "1", "--drain-grace", "3")
        node = Member(name, self._folder, "node", str(self._service), *asked, **self._environment)
        self.nodes[name] = node
        return node

    def start_replica(self, name: str) -> None:
        """Start a replica on a free port."""
        asked = ("--port", "0", "--queue-size", "20")
        replica = Member(f"replica-{name}", self._folder, "api", *asked, **self._environment)
        self.replicas[name] = replica

    def address(self, name: str) -> str:
        """Return where a replica listens, as it says itself."""
        replica = self.replicas[name]

        def told() -> str:
            assert replica.is_running, replica.output
            lines = replica.output.splitlines()
            return next((line for line in lines if line.startswith("listening on ")), "")

        return wait_until_sync(told, f"replica {name} listens", START_S).split()[-1]

    async def complete(self, registry: Registry) -> None:
        """Start what is missing; return when all replicas listen and only live nodes are known."""
        self.nodes = {name: node for name, node in self.nodes.items() if node.is_running}
        for name in REPLICAS:
            if name not in self.replicas or not self.replicas[name].is_running:
                self.start_replica(name)
        while len(self.nodes) < NODES:
            self.start_node()
        for name in REPLICAS:
            self.address(name)
        await self.idle(registry, *self.nodes)

    async def idle(self, registry: Registry, *names: str) -> None:
        """Wait until exactly these nodes are known, and all are idle."""

        async def are_idle() -> bool:
            for name in names:
                assert self.nodes[name].is_running, self.nodes[name].output
            known = {n.node_id: n.state for n in (await registry.snapshot(POOL)).nodes}
            return known == dict.fromkeys(names, NodeState.IDLE)

        await wait_until(are_idle, f"{', '.join(names)} are idle, and no other", START_S)

    def close(self) -> None:
        """End all that still runs."""
        for member in (*self.nodes.values(), *self.replicas.values()):
            member.kill()


@contextmanager
def running_cluster(folder: Path, redis_url: str, livekit: LiveKitServer) -> Iterator[Cluster]:
    """Run a cluster for the length of the block; its members start with the first `complete`."""
    cluster = Cluster(folder, redis_url, livekit)
    try:
        yield cluster
    finally:
        cluster.close()
