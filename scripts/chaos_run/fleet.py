"""What is a fleet, and how does it come up whole again after whatever was done to it?

Redis with its append-only file, three replicas, four nodes, each with a `FaultProxy` between itself
and Redis, and one `Venue` for all. Ports are chosen once, so a process that comes back is found
where it was. Everything listens on loopback and lies in one temporary folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from scripts.chaos_run.append_only_file import AppendOnlyFile
from scripts.chaos_run.fault_proxy import FaultProxy
from scripts.chaos_run.member import Member, Surprise
from scripts.chaos_run.processes import node, redis_with_file, replica
from scripts.chaos_run.schedule import NODE_TTL_S, NODES, POOL, REDIS, REPLICAS
from scripts.chaos_run.venue import Venue
from shared.embedded.child import ChildSpec, Graveyard
from shared.embedded.ports import free_port
from shared.lifecycle import until_available
from shared.states import NodeState
from shared.store import Registry
from shared.store.scripts import load
from tests.support import synthetic_service
from tests.support.fake_node import CLOCK_VARIABLE, VENUE_VARIABLE
from tests.support.stepped_clock import StepLever
from tests.support.wait import scaled_s

SLOTS = 2
"""Of each node."""
CONTROLLER_TIMEOUT_S = 2.0
_UP_WITHIN_S = 60.0
_SERVING = frozenset((NodeState.IDLE, NodeState.BUSY))
_BEAT_DIGEST = load("beat_node").digest.encode()

_COMMON: Mapping[str, object] = {
    "pool": POOL,
    "deployment_id": "chaos",
    "livekit_api_key": "chaos",
    "livekit_api_secret": "a-secret-that-is-long-enough-for-a-chaos-run",
}
_REPLICA: Mapping[str, object] = {
    "queue_size": 1000,
    "queue_lease_s": 5.0,
    "assigned_timeout_s": 2.5,
    "joining_timeout_s": 4.0,
    "starting_timeout_s": 5.0,
    "draining_timeout_s": 4.0,
    "session_timeout_s": 30.0,
    "controller_timeout_s": CONTROLLER_TIMEOUT_S,
    "room_empty_timeout_s": 2.0,
}
_NODE: Mapping[str, object] = {
    "pipe_path": synthetic_service.__file__,
    "max_sessions_per_worker": SLOTS,
    "node_ttl_s": NODE_TTL_S,
    "silence_margin_s": 1.0,
    "beat_interval_s": 0.5,
    "drain_grace_s": 1.0,
}


class Fleet:
    """All processes of one run; make it on the main thread, close it in any case."""

    def __init__(self, folder: Path, *, flavour: str) -> None:
        self.folder = folder
        self.venue = Venue()
        self.append_only = AppendOnlyFile(folder / REDIS)
        self._flavour = flavour
        self._graveyard = Graveyard()
        self._redis_port = free_port()
        self.api_ports = {name: free_port() for name in REPLICAS}
        self.proxies = {
            name: FaultProxy(
                port=free_port(),
                redis_port=self._redis_port,
                seed=name,
                is_beat=lambda command: _BEAT_DIGEST in command[:128],
            )
            for name in (*NODES, *REPLICAS)
        }
        self.clocks = {name: StepLever(folder / name / "clock") for name in NODES}
        self.members: dict[str, Member] = {}
        self._watch: asyncio.Task[None] | None = None

    @property
    def redis_url(self) -> str:
        """Redis itself, past all faults."""
        return f"redis://127.0.0.1:{self._redis_port}/0"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the replicas are."""
        return tuple(f"http://127.0.0.1:{port}" for port in self.api_ports.values())

    async def open(self) -> None:
        """Start everything and return when sessions could be served."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        await self._graveyard.open()
        await self.venue.open()
        for proxy in self.proxies.values():
            await proxy.open()
        redis = redis_with_file(self.folder / REDIS, self._redis_port, flavour=self._flavour)
        for spec in (redis, *map(self._replica, REPLICAS), *map(self._node, NODES)):
            self.members[spec.name] = self.member_of(spec)
        await self.members[REDIS].start()
        await self.members[REDIS].ready(_UP_WITHIN_S)
        self._watch = asyncio.create_task(self.append_only.watch(), name="watch the file")
        for member in self.members.values():
            await member.start()
        if missing := await self.missing(scaled_s(_UP_WITHIN_S)):
            raise RuntimeError(f"the fleet doesn't come up: {missing}; logs are in {self.folder}")

    def member_of(self, spec: ChildSpec) -> Member:
        """Return a process that is closed with the fleet, not started yet."""
        return Member(spec, log_dir=self.folder / "logs", graveyard=self._graveyard)

    async def heal(self) -> list[str]:
        """Undo all faults and start whatever is down; returns what doesn't come back."""
        self.venue.recover()
        for proxy in self.proxies.values():
            proxy.heal()
        for clock in self.clocks.values():
            clock.set_s(0.0)
        for member in self.members.values():
            member.thaw()
            await member.start()
        return await self.missing(scaled_s(_UP_WITHIN_S))

    async def missing(self, within_s: float) -> list[str]:
        """Wait until replicas answer and all nodes serve; returns who doesn't in time."""
        deadline_s = time.monotonic() + within_s
        registry = Registry.connect(self.redis_url)
        try:
            while True:
                away = [n for n in (REDIS, *REPLICAS) if not await self.members[n].spec.ready()]
                if not away:
                    nodes = (await until_available(lambda: registry.snapshot(POOL))).nodes
                    up = {node.node_id for node in nodes if node.state in _SERVING}
                    away = [name for name in NODES if name not in up]
                if not away or time.monotonic() > deadline_s:
                    return away
                await asyncio.sleep(0.1)
        finally:
            await registry.aclose()

    @property
    def copies_on_their_way(self) -> int:
        """Calls that will yet be done a second time."""
        return sum(proxy.copies_on_their_way for proxy in self.proxies.values())

    def take_surprises(self) -> list[Surprise]:
        """Return who ended unasked since the last call."""
        found = [one for member in self.members.values() for one in member.surprises]
        for member in self.members.values():
            member.surprises.clear()
        return found

    async def aclose(self) -> None:
        """End everything at once."""
        for member in self.members.values():
            await member.kill()
        for proxy in self.proxies.values():
            await proxy.aclose()
        await self.venue.aclose()
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await self._graveyard.aclose()

    # --- what the processes are -----------------------------------------------------------------

    def _replica(self, name: str) -> ChildSpec:
        return replica(name, self.api_ports[name], self._settings(name, _REPLICA))

    def _node(self, name: str) -> ChildSpec:
        return node(
            name,
            self._settings(name, _NODE),
            module="tests.support.fake_node",
            more={
                VENUE_VARIABLE: str(self.venue.workers_port),
                CLOCK_VARIABLE: str(self.clocks[name].path),
            },
        )

    def _settings(self, name: str, values: Mapping[str, object]) -> dict[str, object]:
        return {
            **_COMMON,
            **values,
            "data_dir": self.folder / name,
            "redis_url": f"redis://127.0.0.1:{self.proxies[name].port}/0",
            "livekit_url": f"ws://127.0.0.1:{self.venue.http_port}",
        }
