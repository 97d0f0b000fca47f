"""What stands behind the load balancer while its replicas are restarted one by one?

A `Fleet` without faults between its processes and Redis, and with times that no busy machine uses
up: whatever is lost here was lost by the restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scripts.chaos_run.fleet import Fleet
from scripts.chaos_run.member import Member
from scripts.chaos_run.processes import environment
from scripts.chaos_run.schedule import REPLICAS
from shared.embedded.child import ChildSpec
from shared.embedded.ports import free_port
from shared.embedded.probes import http_ok
from tests.support.load_balancer import LoadBalancer, load_balancer

_PATIENT: Mapping[str, object] = {
    "queue_lease_s": 0,
    "assigned_timeout_s": 30.0,
    "joining_timeout_s": 60.0,
    "starting_timeout_s": 60.0,
    "draining_timeout_s": 60.0,
    "session_timeout_s": 0,
    "controller_timeout_s": 0,
    "room_empty_timeout_s": 0,
    "node_ttl_s": 30.0,
    "silence_margin_s": 5.0,
    "beat_interval_s": 1.0,
}


class RollingFleet(Fleet):
    """Redis, three replicas and four nodes, and a load balancer in front."""

    def __init__(self, folder: Path, *, flavour: str, proxy: str, notice_s: float) -> None:
        super().__init__(folder, flavour=flavour)
        self._notice_s = notice_s
        place = folder / proxy
        place.mkdir()
        ports = [self.api_ports[name] for name in REPLICAS]
        self.front: LoadBalancer = load_balancer(proxy, place, free_port(), ports)

    async def open(self) -> None:
        """Start everything, the load balancer last."""
        await super().open()
        name = self.front.name
        self.members[name] = await self._start(
            ChildSpec(
                name=name,
                argv=self.front.argv,
                env=environment(),
                ready=http_ok(self.front.port, "/v1/service/ready"),
            )
        )

    async def restart(self, name: str) -> bool:
        """Start a replica that has ended; returns whether it serves."""
        await self.members[name].start()
        return await self.members[name].ready(60.0)

    async def _start(self, spec: ChildSpec) -> Member:
        member = self.member_of(spec)
        await member.start()
        if not await member.ready(30.0):
            raise RuntimeError(f"{spec.name} doesn't serve; its log is in {self.folder}")
        return member

    def _settings(self, name: str, values: Mapping[str, object]) -> dict[str, object]:
        known = super()._settings(name, values)
        patient = {field: value for field, value in _PATIENT.items() if field in known}
        notice = {"stop_notice_s": self._notice_s} if name in REPLICAS else {}
        return {**known, **patient, **notice, "redis_url": self.redis_url}
