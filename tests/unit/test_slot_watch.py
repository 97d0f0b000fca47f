"""A slot that nobody owns any more is found, and the node offers one fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpu_node.heartbeat import Heartbeat, NodeLease
from gpu_node.slot_watch import LOOKS, SlotWatch, slots_of
from shared.clock import SystemClock
from shared.errors import ServiceFault
from shared.records import Assignment
from shared.states import NodeState
from tests.support.running_node import CuttableLink


class Scene:
    """A node that beats nowhere, and a service whose pool says what the test wants."""

    def __init__(self, slots: int) -> None:
        clock = SystemClock()
        self.heartbeat = Heartbeat(
            node_id="n1",
            link=CuttableLink("redis://127.0.0.1:1"),
            lease=NodeLease(clock, 10.0, 3.0),
            clock=clock,
            every_s=1.0,
            on_reply=lambda _: None,
        )
        self.slots, self.free = slots, slots
        self.is_gone = False
        self.offer(slots)
        self.watch = SlotWatch(self.heartbeat, self._figures)

    @property
    def offered(self) -> int:
        """What the next beat says."""
        return self.heartbeat.report.capacity

    def offer(self, sessions: int, state: NodeState = NodeState.IDLE) -> None:
        """The service comes up, or goes."""
        self.heartbeat.say(replace(self.heartbeat.report, state=state, capacity=sessions))

    def hold(self, *sessions: str) -> None:
        """Sessions come."""
        for session in sessions:
            self.heartbeat.list_resident(Assignment(session_id=session, epoch=1))

    async def look(self, times: int = LOOKS) -> int:
        """Look and return what is offered."""
        for _ in range(times):
            await self.watch.look()
        return self.offered

    async def _figures(self) -> Mapping[str, Any]:
        if self.is_gone:
            raise ServiceFault("the service is gone.")
        return {"slots": {"capacity": self.slots, "free": self.free, "quarantined": []}}


async def test_slots_that_sessions_own_are_none_of_its_business() -> None:
    """Also while one of them ends between two looks."""
    scene = Scene(3)
    scene.hold("a", "b")
    scene.free = 1
    assert await scene.look() == 3
    scene.free = 0
    assert await scene.look(LOOKS - 1) == 3
    scene.free = 1
    assert await scene.look() == 3


async def test_a_leaked_slot_is_offered_no_more_until_it_is_back() -> None:
    """Nor two."""
    scene = Scene(3)
    scene.hold("a")
    scene.free = 1
    assert await scene.look() == 2
    scene.free = 0
    assert await scene.look() == 1
    assert await scene.look() == 1
    scene.free = 2
    assert await scene.look(1) == 3


async def test_with_all_slots_leaked_nothing_is_offered() -> None:
    """Then health tells that the node is of no use."""
    scene = Scene(2)
    scene.free = 0
    assert await scene.look() == 0
    scene.free = 2
    assert await scene.look(1) == 2


async def test_another_service_begins_with_its_own_number() -> None:
    """What its predecessor lost, it has."""
    scene = Scene(2)
    scene.free = 1
    assert await scene.look() == 1
    scene.offer(0, NodeState.LOADING)
    assert await scene.look(1) == 0
    scene.free = 2
    scene.offer(2)
    assert await scene.look() == 2


async def test_a_number_that_somebody_else_lowers_stays_lowered() -> None:
    """What was withheld isn't added to it."""
    scene = Scene(4)
    scene.free = 3
    assert await scene.look() == 3
    scene.offer(2)
    assert await scene.look(1) == 1


async def test_a_service_that_is_gone_is_asked_again_later() -> None:
    """Nothing follows from that."""
    scene = Scene(2)
    scene.free = 0
    await scene.look(LOOKS - 1)
    scene.is_gone = True
    assert await scene.look(1) == 2
    scene.is_gone = False
    assert await scene.look(LOOKS - 1) == 2


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"slots": 3},
        {"slots": {"capacity": "2", "free": 1}},
        {"slots": {"capacity": 2, "free": 3}},
        {"slots": {"capacity": 2}},
    ],
)
def test_figures_without_a_pool_say_nothing(figures: dict[str, Any]) -> None:
    """Most services have none."""
    assert slots_of(figures) is None
