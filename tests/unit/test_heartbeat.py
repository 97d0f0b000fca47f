"""What a beat says, and when the node falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gpu_node.heartbeat import Heartbeat, NodeLease, NodeReport
from shared.errors import StoreUnavailable
from shared.records import (
    Assignment,
    Beat,
    BeatConfirmed,
    BeatReply,
    EndedHere,
    MustRegister,
    Presence,
    Resident,
)
from shared.states import NodeState, Reason
from tests.support.manual_clock import ManualClock
from tests.support.wait import wait_until

MINE = Assignment(session_id="default-a", epoch=5)
OTHER = Assignment(session_id="default-b", epoch=6)
TTL_S = 10.0


def confirmed(*owned: Assignment) -> BeatConfirmed:
    """A reply that confirms some sessions."""
    return BeatConfirmed(owned=frozenset(owned), todo=(), kills=())


def assignments_of(beat: Beat) -> list[Assignment]:
    """The residents that a beat names."""
    return [Assignment(session_id=one.session_id, epoch=one.epoch) for one in beat.residents]


class RecordingLink:
    """Answers each beat as the test wants and keeps it."""

    def __init__(self, answer: Callable[[Beat], BeatReply]) -> None:
        self.answer = answer
        self.beats: list[Beat] = []
        self.closed = False

    def beat(self, beat: Beat) -> BeatReply:
        """Keep and answer."""
        self.beats.append(beat)
        return self.answer(beat)

    def close(self) -> None:
        """Note it."""
        self.closed = True


@asynccontextmanager
async def beating(
    link: RecordingLink, clock: ManualClock, lease: NodeLease, every_s: float = 60.0
) -> AsyncIterator[tuple[Heartbeat, list[BeatReply]]]:
    """Run a heartbeat that beats when it's poked; hand out it and the replies that it passed on."""
    replies: list[BeatReply] = []
    heartbeat = Heartbeat(
        node_id="node-a",
        link=link,
        lease=lease,
        clock=clock,
        every_s=every_s,
        on_reply=replies.append,
    )
    running = asyncio.create_task(heartbeat.run())
    try:
        yield heartbeat, replies
    finally:
        heartbeat.close()
        await running


def test_a_session_is_silent_three_seconds_before_the_registry_gives_up() -> None:
    """Counted from the sending of the last confirmed beat."""
    clock = ManualClock()
    lease = NodeLease(clock, TTL_S)
    sent_at_s = clock.monotonic_s()
    clock.move(1.0)
    lease.confirm(sent_at_s, frozenset({MINE}), frozenset({MINE}))
    clock.move(5.9)
    assert lease.holds(MINE)
    clock.move(0.2)
    assert not lease.holds(MINE)
    assert not lease.is_fresh()


def test_only_a_confirmed_session_is_heard() -> None:
    """Equality of session and epoch, nothing less."""
    lease = NodeLease(ManualClock(), TTL_S)
    lease.confirm(1000.0, frozenset({MINE}), frozenset())
    assert lease.holds(MINE)
    assert not lease.holds(OTHER)
    assert not lease.holds(Assignment(session_id=MINE.session_id, epoch=4))


def test_a_new_session_lives_on_the_last_confirmed_beat() -> None:
    """Until the next one, which must name it."""
    lease = NodeLease(ManualClock(), TTL_S)
    assert not lease.holds(OTHER)
    lease.confirm(1000.0, frozenset({MINE}), frozenset({MINE}))
    lease.inherit(OTHER)
    assert lease.holds(OTHER)
    lease.confirm(1000.0, frozenset({MINE}), frozenset({MINE}))
    assert lease.holds(OTHER)
    lease.confirm(1000.0, frozenset({MINE}), frozenset({MINE, OTHER}))
    assert not lease.holds(OTHER)


def test_an_answer_to_an_older_beat_takes_nothing_back() -> None:
    """A beat of the life before may be answered after the registration."""
    lease = NodeLease(ManualClock(1010.0), TTL_S)
    lease.confirm(1009.0, frozenset({MINE}), frozenset())
    lease.confirm(1001.0, frozenset(), frozenset())
    assert lease.holds(MINE)


async def test_no_beat_is_sent_before_a_life_has_begun() -> None:
    """The agent registers first."""
    clock, link = ManualClock(), RecordingLink(lambda _beat: confirmed())
    lease = NodeLease(clock, TTL_S)
    async with beating(link, clock, lease, every_s=0.01) as (heartbeat, _):
        await asyncio.sleep(0)
        heartbeat.poke()
        assert link.beats == []
        heartbeat.begin_life(7, clock.monotonic_s(), frozenset())
        await wait_until(lambda: link.beats, "the first beat")
        assert link.beats[0].incarnation == 7
    assert link.closed


async def test_a_beat_names_residents_ended_ones_and_what_the_node_is() -> None:
    """Stamp by stamp; an idle node with a resident is busy."""
    clock, link = ManualClock(), RecordingLink(lambda beat: confirmed(*assignments_of(beat)))
    lease = NodeLease(clock, TTL_S)
    async with beating(link, clock, lease) as (heartbeat, replies):
        heartbeat.begin_life(1, clock.monotonic_s(), frozenset())
        await wait_until(lambda: replies, "the first reply")
        heartbeat.say(NodeReport(state=NodeState.IDLE, capacity=4))
        heartbeat.list_resident(MINE)
        here = Presence(connected=True, controller=True, participants=2)
        heartbeat.see(MINE, here)
        resident = Resident(session_id=MINE.session_id, epoch=MINE.epoch, presence=here)
        await wait_until(lambda: link.beats[-1].residents == (resident,), "the resident is told")
        beat = link.beats[-1]
        assert (beat.state, beat.capacity) == (NodeState.BUSY, 4)
        assert heartbeat.residents() == (MINE,)
        ended = EndedHere(session_id=MINE.session_id, epoch=MINE.epoch, reason=Reason.COMPLETED)
        heartbeat.unlist(MINE, ended)
        await wait_until(lambda: link.beats[-1].ended == (ended,), "the end is told")
        assert link.beats[-1].residents == ()
        assert not lease.holds(MINE)
        assert [beat.stamp for beat in link.beats] == list(range(1, len(link.beats) + 1))


async def test_an_ended_session_is_repeated_for_two_minutes_after_it_was_told() -> None:
    """Counted from the first confirmed beat that carried it."""
    clock, link = ManualClock(), RecordingLink(lambda _beat: confirmed())
    ended = EndedHere(session_id="default-a", epoch=5, reason=Reason.COMPLETED)
    async with beating(link, clock, NodeLease(clock, TTL_S)) as (heartbeat, replies):

        async def beat_once() -> Beat:
            before = len(replies)
            heartbeat.poke()
            await wait_until(lambda: len(replies) > before, "one more reply")
            return link.beats[-1]

        heartbeat.begin_life(1, clock.monotonic_s(), frozenset())
        await wait_until(lambda: replies, "the first reply")
        heartbeat.unlist(MINE, ended)
        await wait_until(lambda: link.beats[-1].ended, "it's told")
        clock.move(119.0)
        assert (await beat_once()).ended == (ended,)
        clock.move(2.0)
        await beat_once()
        assert (await beat_once()).ended == ()


async def test_an_unanswered_beat_renews_nothing_and_the_next_one_comes_soon() -> None:
    """An outage of the registry costs the lease, not the thread."""
    clock = ManualClock()
    down = True

    def answer(_beat: Beat) -> BeatReply:
        if down:
            raise StoreUnavailable(why="down")
        return confirmed(MINE)

    link, lease = RecordingLink(answer), NodeLease(clock, TTL_S)
    async with beating(link, clock, lease) as (heartbeat, replies):
        heartbeat.begin_life(1, clock.monotonic_s(), frozenset({MINE}))
        clock.move(8.0)
        await wait_until(lambda: len(link.beats) > 1, "a second try")
        assert not lease.holds(MINE)
        down = False
        await wait_until(lambda: replies, "an answer")
        assert lease.holds(MINE)


async def test_a_forgotten_life_beats_no_more() -> None:
    """Its last reply must not be followed by one that hits the next life."""
    clock, link = ManualClock(), RecordingLink(lambda _beat: MustRegister(keep=True))
    async with beating(link, clock, NodeLease(clock, TTL_S), every_s=0.01) as (heartbeat, replies):
        heartbeat.begin_life(3, clock.monotonic_s(), frozenset())
        await wait_until(lambda: replies, "the reply")
        assert heartbeat.incarnation == 0
        heartbeat.begin_life(4, clock.monotonic_s(), frozenset())
        await wait_until(lambda: len(replies) == 2, "the next life's reply")
        assert [beat.incarnation for beat in link.beats] == [3, 4]


async def test_the_loops_age_shows_how_long_it_has_stood() -> None:
    """Asked from the metrics port's thread."""
    clock, link = ManualClock(), RecordingLink(lambda _beat: confirmed())
    async with beating(link, clock, NodeLease(clock, TTL_S)) as (heartbeat, _):
        clock.move(4.0)
        assert heartbeat.loop_age_s() == 4.0
        heartbeat.see_loop()
        assert heartbeat.loop_age_s() == 0.0


async def test_a_stuck_loop_gets_no_beat() -> None:
    """Its sessions move; whoever may end the process is told, and told again (R12)."""
    clock, link = ManualClock(), RecordingLink(lambda _beat: confirmed())
    told: list[float] = []
    heartbeat = Heartbeat(
        node_id="node-a",
        link=link,
        lease=NodeLease(clock, TTL_S),
        clock=clock,
        every_s=0.01,
        on_reply=lambda _reply: None,
    )
    heartbeat.on_stuck = lambda: told.append(clock.monotonic_s())
    running = asyncio.create_task(heartbeat.run())
    heartbeat.begin_life(3, clock.monotonic_s(), frozenset())
    for _ in range(6):
        before = len(link.beats)
        await wait_until(lambda: len(link.beats) > before or told, "a beat or a word")  # noqa: B023
        clock.move(1.9)
    await wait_until(lambda: len(told) > 1, "it is told")
    beats = len(link.beats)
    await wait_until(lambda: len(told) > 4, "it is told again")
    assert len(link.beats) == beats
    heartbeat.see_loop()
    await wait_until(lambda: len(link.beats) > beats, "the loop moves, and so do the beats")
    heartbeat.close()
    await running
