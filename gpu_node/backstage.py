"""What do all runners of a node share?

Built once in the agent, after the service was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpu_node.heartbeat import Heartbeat, NodeLease
from gpu_node.room import RoomFactory
from gpu_node.services.hosting import Host
from gpu_node.settings import NodeSettings
from shared.clock import Clock
from shared.store import Registry


class RoomKeeper(Protocol):
    """The media server's side of rooms: `shared.rooms.admin.RoomAdmin`, or the tests' fake one."""

    async def ensure(self, session_id: str, epoch: int) -> None:
        """Make sure that the room is there; raises `RoomsUnavailable`."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete the room, if it's there; raises `RoomsUnavailable`."""
        ...

    async def send_status(self, session_id: str, body: Mapping[str, object]) -> None:
        """Say it to all in the room, whoever leaves it meanwhile; raises `RoomsUnavailable`."""
        ...

    async def probe(self) -> bool:
        """Whether the media server answers."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """Parts of one node."""

    settings: NodeSettings
    registry: Registry
    keeper: RoomKeeper
    open_room: RoomFactory
    host: Host
    heartbeat: Heartbeat
    lease: NodeLease
    clock: Clock
