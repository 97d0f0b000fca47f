"""Of what the beats' replies say, each thing is done once, and only the highest epoch counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
import pytest_asyncio

from gpu_node.assignments import Assignments
from gpu_node.heartbeat import Heartbeat, NodeLease
from gpu_node.runner import Runner
from shared.records import Assignment, Beat, BeatConfirmed, BeatReply, Kill, Owner
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.manual_clock import ManualClock
from tests.support.wait import wait_until


def at(epoch: int, session_id: str = "default-a") -> Assignment:
    """One assignment."""
    return Assignment(session_id=session_id, epoch=epoch)


def told(
    *todo: Assignment,
    kills: tuple[Kill, ...] = (),
    adopt: tuple[Assignment, ...] = (),
    moves_in_s: float | None = None,
) -> BeatConfirmed:
    """A beat's reply."""
    return BeatConfirmed(
        owned=frozenset(todo), todo=todo, kills=kills, adopt=adopt, moves_in_s=moves_in_s
    )


def kill(assignment: Assignment, reason: str) -> Kill:
    """One entry of the kill list."""
    return Kill(session_id=assignment.session_id, epoch=assignment.epoch, reason=reason)


class NoLink:
    """No beat leaves."""

    def beat(self, beat: Beat) -> BeatReply:
        """Never called: no life begins."""
        raise AssertionError(beat)

    def close(self) -> None:
        """Nothing to close."""


class FakeRunner:
    """Notes its orders and runs until the test lets it end."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.state = SessionState.ASSIGNED
        self.is_stuck = False
        self.is_rebasing = False
        self.orders: list[str] = []
        self.through = asyncio.Event()

    async def run(self) -> None:
        """Until it's through."""
        await self.through.wait()

    def stop(self, reason: Reason) -> None:
        """Note it."""
        self.orders.append(reason)

    def give_back(self, why: str) -> None:
        """Note it, and be through at once."""
        self.orders.append(why)
        self.through.set()

    def tell_move(self, in_s: float | None) -> None:
        """Note it."""
        self.orders.append("it stays" if in_s is None else f"moves in {in_s:g}")

    def lose(self) -> None:
        """Note it."""
        self.orders.append("lost")

    def bring_back(self) -> None:
        """Note it."""
        self.orders.append("bring back")

    def check(self) -> None:
        """Nothing to ask."""


class FakeEnds:
    """Takes the confirmations of sessions that never were here."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, int, Reason]] = []

    async def end(self, owner: Owner, reason: Reason, error: str | None = None) -> str:
        """Note it."""
        self.ended.append((owner.session_id, owner.epoch, reason))
        return "ended"


class House:
    """Assignments with runners that do as the test says."""

    def __init__(self) -> None:
        self.runners: list[FakeRunner] = []
        self.ends = FakeEnds()
        clock = self.clock = ManualClock()
        self.heartbeat = Heartbeat(
            node_id="node-a",
            link=NoLink(),
            lease=NodeLease(clock, 10.0),
            clock=clock,
            every_s=60.0,
            on_reply=lambda _reply: None,
        )
        self.heartbeat.begin_life(1, 0.0, frozenset())
        self.assignments = Assignments(
            cast("Registry", self.ends),
            self.heartbeat,
            lambda a: cast("Runner", self.make(a)),
            self.clock,
        )

    def make(self, assignment: Assignment) -> FakeRunner:
        """Make one and keep it."""
        self.runners.append(FakeRunner(assignment))
        return self.runners[-1]

    async def ends_run(self, runner: FakeRunner) -> None:
        """Let one end, and let that be noticed."""
        runner.through.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest_asyncio.fixture
async def house() -> AsyncIterator[House]:
    """A node without sessions."""
    house = House()
    yield house
    await house.assignments.aclose()


async def test_a_to_do_is_started_once_however_often_its_told(house: House) -> None:
    """And stands in the node's list from then on."""
    house.assignments.apply(told(at(5)))
    house.assignments.apply(told(at(5)))
    assert [runner.assignment for runner in house.runners] == [at(5)]
    assert house.heartbeat.residents() == (at(5),)


async def test_what_is_through_isnt_started_again_by_a_late_reply(house: House) -> None:
    """A beat's reply may be older than the end that it doesn't know of."""
    house.assignments.apply(told(at(5)))
    await house.ends_run(house.runners[0])
    house.assignments.apply(told(at(5)))
    house.assignments.apply(told(at(4)))
    assert len(house.runners) == 1


async def test_a_higher_epoch_waits_until_the_lower_one_is_cleaned(house: House) -> None:
    """The same session came back to this node while it still has leftovers of the last time."""
    house.assignments.apply(told(at(5)))
    house.assignments.apply(told(at(9)))
    assert house.runners[0].orders == ["lost"]
    assert len(house.runners) == 1
    await house.ends_run(house.runners[0])
    house.assignments.apply(told(at(9)))
    assert [runner.assignment.epoch for runner in house.runners] == [5, 9]


async def test_a_session_that_cant_be_cleaned_stays_listed(house: House) -> None:
    """Its slot is held back, and it's never started again here."""
    house.assignments.apply(told(at(5)))
    house.runners[0].is_stuck = True
    await house.ends_run(house.runners[0])
    house.assignments.apply(told(at(9)))
    assert len(house.runners) == 1
    assert house.heartbeat.residents() == (at(5),)


@pytest.mark.parametrize(
    ("reason", "order"),
    [("client_stop", "client_stop"), ("fenced", "lost"), ("a_word_of_next_year", "admin")],
)
async def test_the_kill_list_ends_exactly_the_session_that_it_names(
    house: House, reason: str, order: str
) -> None:
    """By session and epoch; a reason of a newer release is understood as well as can be."""
    other = at(6, "default-b")
    house.assignments.apply(told(at(5), other))
    house.assignments.apply(told(kills=(kill(at(5), reason), kill(at(4, "default-b"), "fenced"))))
    assert [runner.orders for runner in house.runners] == [[order], []]


async def test_the_kill_of_a_session_that_never_was_here_is_confirmed_once(house: House) -> None:
    """Fenced ones need no answer."""
    house.assignments.apply(told(kills=(kill(at(5), "client_stop"), kill(at(6), "fenced"))))
    house.assignments.apply(told(kills=(kill(at(5), "client_stop"),)))
    await wait_until(lambda: house.ends.ended, "the confirmation")
    assert house.ends.ended == [("default-a", 5, Reason.CLIENT_STOP)]


async def test_what_the_registry_lost_is_brought_back_by_who_holds_it(house: House) -> None:
    """Told with each beat; another epoch, or one that isn't here any more, means nothing."""
    house.assignments.apply(told(at(5)))
    house.assignments.apply(told(adopt=(at(5), at(4), at(5, "default-b"))))
    assert house.runners[0].orders == ["bring back"]
    await house.ends_run(house.runners[0])
    house.assignments.apply(told(adopt=(at(5),)))
    assert house.runners[0].orders == ["bring back"]


async def test_a_lost_life_loses_all_sessions_but_those_it_keeps(house: House) -> None:
    """The registry names what is still ours."""
    other = at(6, "default-b")
    house.assignments.apply(told(at(5), other))
    house.assignments.keep_only(frozenset({other}))
    assert [runner.orders for runner in house.runners] == [["lost"], []]


async def test_a_drain_gives_back_what_hasnt_begun_and_waits_for_the_rest(house: House) -> None:
    """A to-do that crosses the drain goes back at once."""
    house.assignments.apply(told(at(5), at(6, "default-b")))
    begun, waiting = house.runners
    begun.state = SessionState.RUNNING
    draining = asyncio.create_task(house.assignments.drain(30.0))
    await wait_until(lambda: waiting.orders, "the first goes back")
    assert begun.orders == []
    house.assignments.apply(told(at(7, "default-c")))
    assert house.runners[2].orders == ["node_shutdown"]
    begun.through.set()
    await draining


async def test_a_live_drain_counts_down_in_the_rooms(house: House) -> None:
    """At its beginning and now and then, however often beats tell it; once when it's called off."""
    house.assignments.apply(told(at(5)))
    for left_s in range(120, 100, -2):
        house.assignments.apply(told(moves_in_s=float(left_s)))
        house.clock.move(2.0)
    for _ in range(2):
        house.assignments.apply(told())
    assert house.runners[0].orders == [
        "moves in 120",
        "moves in 114",
        "moves in 108",
        "moves in 102",
        "it stays",
    ]


async def test_at_the_end_of_a_live_drain_all_sessions_are_given_back(house: House) -> None:
    """One that is accepted only then goes back with the next beat."""
    house.assignments.apply(told(at(5), at(6, "default-b")))
    house.assignments.apply(told(at(7, "default-c"), moves_in_s=0.0))
    assert [runner.orders for runner in house.runners] == [["node_drained"]] * 3
