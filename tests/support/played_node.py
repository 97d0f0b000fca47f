"""How does a test play a node, without a process, a room or a model?

By the calls that a node makes: it registers, beats, advances its sessions and ends them. Nothing
happens by itself; a test says each step, and can leave out or repeat any.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from shared.ids import new_boot_ids
from shared.node_profile import NodeProfile
from shared.records import (
    Assignment,
    Beat,
    BeatConfirmed,
    Owner,
    Presence,
    Registered,
    Registration,
    Resident,
)
from shared.states import NodeState, Reason, SessionState
from shared.store import BeatLink, Registry
from tests.support.redis_server import POOL

PROFILE = NodeProfile(
    service="my_world.py", mode="bidirectional", host="test", pid=1, release="0.1.0"
)


@dataclass(slots=True, kw_only=True)
class PlayedNode:
    """One node life; make it with `PlayedNode.begin`."""

    registry: Registry
    link: BeatLink
    node_id: str
    incarnation: int
    capacity: int
    pool: str
    residents: dict[str, Resident] = field(default_factory=dict)
    """By session; a test changes presence here before the next beat."""
    media_ok: bool = True
    state: NodeState | None = None
    """None: idle or busy, by its residents."""
    gpus: str = ""
    """What it tells of its GPUs (`shared.gpus.gpus_text`)."""
    _stamp: int = 0

    @classmethod
    async def begin(
        cls,
        registry: Registry,
        redis_url: str,
        *,
        node_id: str = "node-a",
        capacity: int = 1,
        pool: str = POOL,
        ttl_s: float = 10.0,
        state: NodeState | None = None,
    ) -> PlayedNode:
        """Register a node and let it beat once, so that it is given sessions."""
        registered = await registry.register(
            Registration(
                pool=pool,
                node_id=node_id,
                boot_id=next(new_boot_ids()),
                ttl_s=ttl_s,
                capacity=capacity,
                state=state or NodeState.IDLE,
                profile=PROFILE,
            )
        )
        assert isinstance(registered, Registered)
        node = cls(
            registry=registry,
            link=BeatLink(redis_url, pool),
            node_id=node_id,
            incarnation=registered.incarnation,
            capacity=capacity,
            pool=pool,
            state=state,
        )
        await node.beat()
        return node

    async def beat(self) -> BeatConfirmed:
        """Beat once; what the registry gives becomes resident."""
        self._stamp += 1
        busy = NodeState.BUSY if self.residents else NodeState.IDLE
        beat = Beat(
            node_id=self.node_id,
            incarnation=self.incarnation,
            stamp=self._stamp,
            state=self.state or busy,
            capacity=self.capacity,
            draining=False,
            media_ok=self.media_ok,
            residents=tuple(self.residents.values()),
            gpus=self.gpus,
        )
        reply = await asyncio.to_thread(self.link.beat, beat)
        assert isinstance(reply, BeatConfirmed)
        for todo in reply.todo:
            self.residents[todo.session_id] = Resident(session_id=todo.session_id, epoch=todo.epoch)
        return reply

    async def play(self, session_id: str) -> None:
        """Take an assigned session and bring it to ``running``, as a healthy node does."""
        if session_id not in self.residents:
            await self.beat()
        for state in (
            SessionState.JOINING_ROOM,
            SessionState.STARTING_PIPELINE,
            SessionState.RUNNING,
        ):
            await self.registry.advance(
                self._owner(session_id), state, stamp=self._stamp, pipeline_session_id="world-1"
            )
            if state is SessionState.JOINING_ROOM:
                await self.see(session_id, controller=True, participants=1)

    async def see(self, session_id: str, *, controller: bool, participants: int) -> None:
        """Tell who is in the session's room."""
        self.residents[session_id] = Resident(
            session_id=session_id,
            epoch=self.residents[session_id].epoch,
            presence=Presence(connected=True, controller=controller, participants=participants),
        )
        await self.beat()

    async def end(self, session_id: str, reason: Reason, error: str | None = None) -> None:
        """Confirm that the session is cleaned up here."""
        await self.registry.end(self._owner(session_id), reason, error)
        self.residents.pop(session_id, None)

    async def retire(self) -> None:
        """Say goodbye and close the connection."""
        await self.registry.retire(self.pool, self.node_id, self.incarnation)
        self.link.close()

    def holds(self, session_id: str) -> Assignment:
        """Return the assignment under which the session is resident here."""
        return Assignment(session_id=session_id, epoch=self.residents[session_id].epoch)

    def _owner(self, session_id: str) -> Owner:
        return Owner(
            node_id=self.node_id,
            incarnation=self.incarnation,
            session_id=session_id,
            epoch=self.residents[session_id].epoch,
        )
