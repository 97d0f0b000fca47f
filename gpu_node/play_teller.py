"""What does a node tell the registry of how it plays?

A few figures of the last half minute, every few seconds and only when they changed: for the tables
of operators. A registry that doesn't answer costs nothing but those.
"""

from __future__ import annotations

from typing import NoReturn

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from shared.lifecycle import repeat
from shared.play_facts import play_text
from shared.store import Registry

EVERY_S = 5.0


class PlayTeller:
    """One node's word about its play."""

    def __init__(self, registry: Registry, heartbeat: Heartbeat, pool: str) -> None:
        self._registry = registry
        self._heartbeat = heartbeat
        self._pool = pool
        self._told = ("", 0)
        """The text that the registry has, and in which life."""

    async def run(self) -> NoReturn:
        """Tell for ever."""
        await repeat(self.tell, name="play teller", every_s=EVERY_S)

    async def tell(self) -> None:
        """Tell once, if there is news.

        Raises:
            StoreUnavailable: The registry doesn't answer; the next time will do.
        """
        incarnation = self._heartbeat.incarnation
        now = (play_text(metrics.PLAY.facts()), incarnation)
        if incarnation and now != self._told and (now[0] or self._told[0]):
            await self._registry.note_play(self._pool, self._heartbeat.node_id, incarnation, now[0])
            self._told = now
