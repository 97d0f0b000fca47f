"""What runs when the rooms are real?

LiveKit's server, Redis with its append-only file, two replicas and two nodes as operators run them.
Each node has a slot for every guest and one more: nobody waits for anything but a takeover.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import structlog

from scripts.chaos_run.live import beacon
from scripts.chaos_run.live.plan import GUESTS, NODE_TTL_S, NODES, REPLICAS
from scripts.chaos_run.member import Member, Surprise
from scripts.chaos_run.processes import environment, node, redis_with_file, replica
from scripts.chaos_run.schedule import POOL, REDIS
from shared.embedded.child import ChildSpec, Graveyard
from shared.embedded.livekit_build import cached_program
from shared.embedded.livekit_server import embedded_livekit
from shared.embedded.ports import free_port
from shared.lifecycle import until_available
from shared.rooms.admin import RoomAdmin
from shared.store import Registry
from tests.support.wait import scaled_s, wait_until

_DEPLOYMENT = "live-chaos"
_UP_WITHIN_S = 60.0
_DRAIN_GRACE_S = 0.5


class LiveFleet:
    """All processes of one run; make it on the main thread, close it in any case."""

    def __init__(
        self, folder: Path, *, flavour: str, guests: int = GUESTS, ttl_s: float = NODE_TTL_S
    ) -> None:
        self.folder = folder
        self.members: dict[str, Member] = {}
        self._flavour = flavour
        self._slots = guests + 1
        self._ttl_s = ttl_s
        self._graveyard = Graveyard()
        self._redis_port = free_port()
        self._api_ports = {name: free_port() for name in REPLICAS}
        self._livekit = embedded_livekit(folder, program=cached_program(), env=environment())
        self.redis_url = f"redis://127.0.0.1:{self._redis_port}/0"
        self.registry: Registry
        self.rooms: RoomAdmin

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the replicas are."""
        return tuple(f"http://127.0.0.1:{port}" for port in self._api_ports.values())

    async def open(self) -> None:
        """Start everything; `serving` waits for what takes longer."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        kit = self._livekit
        self.registry = Registry.connect(self.redis_url)
        self.rooms = RoomAdmin(kit.url, kit.api_key, kit.api_secret, _DEPLOYMENT)
        await self._graveyard.open()
        redis = redis_with_file(self.folder / REDIS, self._redis_port, flavour=self._flavour)
        for first in (redis, kit.spec):
            await self._start(first)
            if not await self.members[first.name].ready(scaled_s(_UP_WITHIN_S)):
                raise RuntimeError(f"{first.name} doesn't come up; logs are in {self.folder}")
        for spec in (*map(self._replica, REPLICAS), *map(self._node, NODES)):
            await self._start(spec)

    async def serving(self) -> None:
        """Wait until all replicas answer and both nodes would be given sessions, or fail.

        A node that died rests some seconds first.
        """
        for name in REPLICAS:
            await wait_until(self.members[name].spec.ready, f"{name} answers", _UP_WITHIN_S)

        async def are_given_sessions() -> bool:
            look = self.registry.inspection.look
            facts = await until_available(lambda: look(POOL, nodes=NODES))
            return all(node.free_score is not None for node in facts.nodes)

        await wait_until(are_given_sessions, "both nodes are given sessions", _UP_WITHIN_S)

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
        await self.registry.aclose()
        await self.rooms.aclose()
        await self._graveyard.aclose()

    async def _start(self, spec: ChildSpec) -> None:
        log_dir = self.folder / "logs"
        member = Member(spec, log_dir=log_dir, graveyard=self._graveyard)
        self.members[spec.name] = member
        await member.start()

    def _replica(self, name: str) -> ChildSpec:
        return replica(name, self._api_ports[name], self._settings(name, {"queue_size": 100}))

    def _node(self, name: str) -> ChildSpec:
        own = {
            "pipe_path": beacon.__file__,
            "max_sessions_per_worker": self._slots,
            "node_ttl_s": self._ttl_s,
            "silence_margin_s": self._ttl_s / 3,
            "beat_interval_s": min(2.0, self._ttl_s / 6),
            "drain_grace_s": _DRAIN_GRACE_S,
        }
        return node(name, self._settings(name, own))

    def _settings(self, name: str, values: Mapping[str, object]) -> dict[str, object]:
        kit = self._livekit
        return {
            "pool": POOL,
            "deployment_id": _DEPLOYMENT,
            "livekit_url": kit.url,
            "livekit_api_key": kit.api_key,
            "livekit_api_secret": kit.api_secret,
            "redis_url": self.redis_url,
            "data_dir": self.folder / name,
            **values,
        }
