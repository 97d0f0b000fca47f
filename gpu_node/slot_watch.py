"""Do the service's slots agree with the sessions that the node holds?

A service whose ``runtime_metrics()`` has ``slots`` (as `gpu_node.slots.SlotPool.report` gives them)
lets the node compare: a slot that is taken while no session is left to own it was leaked. Without
this the registry would go on sending sessions to a service that has no slot for them, and a node
whose slots are all leaked would look healthy. So the node offers as many fewer; with none left it
isn't usable any more, and readiness says so. Nobody who plays is touched.

Pool and sessions are looked at one after the other, so a session that ends in between looks like a
leak for a moment: what counts is the least of a few looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import structlog

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from shared.errors import ServiceFault
from shared.lifecycle import repeat
from shared.states import NodeState

_log = structlog.get_logger()

EVERY_S = 5.0
LOOKS = 3
"""So a leak is told after ten to fifteen seconds."""


class SlotWatch:
    """Lowers what a node offers by what its service has leaked."""

    def __init__(
        self, heartbeat: Heartbeat, figures: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> None:
        """Watch over the node of *heartbeat*, whose service's own *figures* can be asked for."""
        self._heartbeat = heartbeat
        self._figures = figures
        self._looks: deque[int] = deque(maxlen=LOOKS)
        self._offered: int | None = None
        """What the node offered after the last look; anything else is news from the service."""
        self._withheld = 0

    async def run(self) -> NoReturn:
        """Look for ever."""
        await repeat(self.look, name="slot watch", every_s=EVERY_S)

    async def look(self) -> None:
        """Compare once, and say what follows."""
        if self._heartbeat.report.state is not NodeState.IDLE:
            self._begin_anew()
            return
        try:
            slots = slots_of(await self._figures())
        except ServiceFault:  # it is gone, and its successor has other slots
            self._begin_anew()
            return
        if slots is None:
            return
        held = len(self._heartbeat.residents())
        self._looks.append(max(0, slots.capacity - slots.free - held))
        leaked = min(self._looks) if len(self._looks) == LOOKS else 0
        metrics.model_slots(free=slots.free, quarantined=slots.quarantined, leaked=leaked)
        self._withhold(leaked)

    def _withhold(self, leaked: int) -> None:
        report = self._heartbeat.report
        if report.state is not NodeState.IDLE:  # the service went while it was asked
            self._begin_anew()
            return
        if report.capacity != self._offered:
            self._withheld = 0
        whole = report.capacity + self._withheld
        offered = max(0, whole - leaked)
        if offered != report.capacity:
            tell = _log.error if leaked > self._withheld else _log.info
            tell("model_slots_leaked", leaked=leaked, offered=offered, of=whole)
            self._heartbeat.say(replace(report, capacity=offered))
        self._offered, self._withheld = offered, whole - offered

    def _begin_anew(self) -> None:
        """Another service has other slots."""
        self._looks.clear()
        self._offered, self._withheld = None, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFigures:
    """What a service says of its pool."""

    capacity: int
    free: int
    quarantined: int


def slots_of(figures: Mapping[str, Any]) -> SlotFigures | None:
    """Return the pool in a service's figures; None if it has none, or none that makes sense."""
    slots = figures.get("slots")
    if not isinstance(slots, Mapping):
        return None
    capacity, free, lost = (slots.get(name) for name in ("capacity", "free", "quarantined"))
    if not isinstance(capacity, int) or not isinstance(free, int) or not 0 <= free <= capacity:
        return None
    quarantined = len(lost) if isinstance(lost, list | tuple) else 0
    return SlotFigures(capacity=capacity, free=free, quarantined=quarantined)
