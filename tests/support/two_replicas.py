"""How does a test use two replicas as one service?

Calls go to one and the other in turn, as through a load balancer: whatever a rule says must hold
whichever of the two is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import httpx

from control_plane.app import Replica
from shared.states import Reason
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.replica import Client, served, settings_for
from tests.support.wait import wait_until


@dataclass(slots=True, kw_only=True)
class TwoReplicas:
    """One service behind two replicas."""

    registry: Registry
    parts: tuple[Replica, Replica]
    clients: tuple[Client, Client]
    _turns: Any = field(init=False)

    def __post_init__(self) -> None:
        self._turns = cycle(self.clients)

    def next(self) -> Client:
        """Return the replica whose turn it is."""
        client: Client = next(self._turns)
        return client

    async def ask(self, who: str = "alice", **body: object) -> httpx.Response:
        """Create a session and return the whole answer."""
        return await self.next().create(identity=who, **body)

    async def create(self, who: str = "alice", **body: object) -> str:
        """Create a session that is taken in; returns its id."""
        answer = await self.ask(who, **body)
        assert answer.status_code in (200, 202), answer.text
        session_id: str = answer.json()["session_id"]
        return session_id

    async def create_many(self, count: int, **body: object) -> list[str]:
        """Create so many sessions, one after the other."""
        return [await self.create(f"client-{n}", **body) for n in range(count)]

    async def create_at_once(self, count: int, **body: object) -> list[dict[str, Any]]:
        """Create so many sessions at the same time, half of them on each replica."""
        answers = await asyncio.gather(*(self.ask(f"client-{n}", **body) for n in range(count)))
        return [answer.json() for answer in answers]

    async def look(self, session_id: str) -> dict[str, Any]:
        """Ask how a session stands."""
        seen: dict[str, Any] = (await self.next().look(session_id)).json()
        return seen

    async def place(self, session_id: str) -> int | None:
        """Return a session's place in line."""
        place: int | None = (await self.look(session_id))["queue_position"]
        return place

    async def places(self, session_ids: Iterable[str]) -> list[int | None]:
        """Return the places of sessions, in their order."""
        return [await self.place(session_id) for session_id in session_ids]

    async def cancel(self, session_id: str) -> None:
        """Leave the line."""
        assert (await self.next().stop(session_id)).json()["status"] == "closed"

    async def length(self) -> int:
        """Return how many wait."""
        return (await self.registry.line("default")).queued

    async def lineup(self) -> dict[str, Any]:
        """Return the operator's view once it shows the present length of the line."""

        async def fresh() -> dict[str, Any] | None:
            (pool,) = (await self.next().get("/v1/queue")).json()["pools"]
            return pool if pool["length"] == await self.length() else None

        lineup = await wait_until(fresh, "the view of the line is fresh")
        return lineup or {}


@asynccontextmanager
async def two_replicas(
    registry: Registry, redis_url: str, livekit_url: str, **options: object
) -> AsyncIterator[TwoReplicas]:
    """Run two replicas with the same options."""
    settings = settings_for(redis_url, livekit_url, **{"queue_size": 300, **options})
    async with served(settings) as (one, first), served(settings) as (two, second):
        yield TwoReplicas(registry=registry, parts=(one, two), clients=(first, second))


async def serve_next(node: PlayedNode) -> str:
    """Let a node end the session that it has held for longest; returns which one."""
    await node.beat()
    session_id = min(node.residents, key=lambda name: node.residents[name].epoch)
    await node.end(session_id, Reason.COMPLETED)
    await node.beat()
    return session_id


async def serve_all(nodes: Iterable[PlayedNode]) -> list[str]:
    """Let nodes end whatever they are given until nothing is left; returns it in that order."""
    ended: list[str] = []
    idle = False
    while not idle:
        idle = True
        for node in nodes:
            await node.beat()
            for session_id in sorted(node.residents, key=lambda name: node.residents[name].epoch):
                await node.end(session_id, Reason.COMPLETED)
                ended.append(session_id)
                idle = False
    return ended
