"""The rules of a fair line, on the real store behind two replicas.

They are those that another system of this kind tests on its queue, in its order (Q01 to Q28), as
far as they are right for us. Ours differ in this: a session that is served has no place instead of
place 0, and an estimate is unknown until it is learned, so there is no baseline to set (Q23).
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from shared.ids import new_session_id
from shared.states import Reason
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.redis_server import RawRedis
from tests.support.replica import BeginNode, assert_problem
from tests.support.room_service import RoomService
from tests.support.two_replicas import TwoReplicas, serve_next, two_replicas
from tests.support.wait import wait_until


@pytest_asyncio.fixture
async def two(
    registry: Registry, redis_url: str, room_service: RoomService
) -> AsyncIterator[TwoReplicas]:
    """One service behind two replicas."""
    async with two_replicas(registry, redis_url, room_service.url) as both:
        yield both


@pytest_asyncio.fixture
async def busy(two: TwoReplicas, begin_node: BeginNode) -> PlayedNode:
    """A node with one slot, which is taken."""
    node = await begin_node()
    await two.create("on-stage")
    await node.beat()
    return node


def held_for(raw: RawRedis, node: PlayedNode, seconds: float) -> None:
    """Let a node's only session have held its slot for so long."""
    (session_id,) = node.residents
    now_ms = int(raw.hget("gr:{default}:ctr", "rt") or 0)
    raw.hset(f"gr:{{default}}:s:{session_id}", "assigned_rt", now_ms - round(seconds * 1000))


def learn(raw: RawRedis, *holds_s: float) -> None:
    """Let sessions have shown how long a slot is held."""
    raw.rpush("gr:{default}:holds", *(round(s * 1000) for s in holds_s))


async def estimates(two: TwoReplicas) -> list[float | None]:
    """The estimate of each place."""
    return [one["estimated_wait_s"] for one in (await two.lineup())["waiting"]]


# Places.


async def test_who_waits_stands_in_the_order_of_arrival(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q01: places 1, 2, 3, whatever the sessions are for."""
    waiting = [
        await two.create("a", prompt="a town"),
        await two.create("b", config={"mode": "talk"}),
        await two.create("c"),
    ]
    assert await two.places(waiting) == [1, 2, 3]


async def test_a_free_slot_serves_exactly_the_head(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q02, Q09: it gets that slot; the others stay and move up."""
    first, second, third = await two.create_many(3)
    await serve_next(busy)
    assert list(busy.residents) == [first]
    assert (await two.look(first))["node_id"] == busy.node_id
    assert await two.places([second, third]) == [1, 2]


async def test_slots_are_given_in_the_order_of_arrival(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q03, Q15: as many are served as slots come free, and no one is overtaken."""
    waiting = await two.create_many(5)
    await serve_next(busy)
    assert [await serve_next(busy) for _ in range(5)] == waiting
    assert await two.length() == 0


async def test_a_full_line_refuses_the_next(
    registry: Registry, redis_url: str, room_service: RoomService
) -> None:
    """Q04: with a word of its own and a time to come back."""
    async with two_replicas(registry, redis_url, room_service.url, queue_size=2) as two:
        await two.create_many(2)
        answer = await two.ask()
    problem = assert_problem(answer, 429, "busy")
    assert problem["detail"] == "queue_full"
    assert int(answer.headers["retry-after"]) > 0


async def test_only_those_who_wait_are_counted(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q05: one more with each that comes, one less with each that leaves."""
    assert await two.length() == 0
    waiting = await two.create_many(3)
    assert await two.length() == 3
    await two.cancel(waiting[1])
    assert await two.length() == 2


async def test_who_leaves_is_told_and_those_behind_move_up(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q06: nobody ahead is concerned."""
    first, second, third = await two.create_many(3)
    await two.cancel(second)
    seen = await two.look(second)
    assert (seen["status"], seen["reason"]) == ("closed", "client_stop")
    assert await two.places([first, third]) == [1, 2]


async def test_leaving_with_an_unknown_ticket_changes_nothing(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q07, Q22: it is not found."""
    waiting = await two.create_many(2)
    unknown = new_session_id("default")
    assert_problem(await two.next().stop(unknown), 404, "unknown_session")
    assert_problem(await two.next().look(unknown), 404, "unknown_session")
    assert await two.places(waiting) == [1, 2]


async def test_who_was_served_stays_so_when_another_one_leaves(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q08: leaving concerns one session."""
    first, second = await two.create_many(2)
    await serve_next(busy)
    await two.cancel(second)
    assert (await two.look(first))["status"] == "assigned"
    assert list(busy.residents) == [first]


async def test_the_end_of_one_session_is_the_turn_of_the_next(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q14: in the same step, without anybody asking."""
    (waiting,) = await two.create_many(1)
    (served,) = busy.residents
    await busy.end(served, Reason.COMPLETED)
    assert (await two.look(waiting))["status"] == "assigned"


async def test_with_a_free_slot_nobody_waits(two: TwoReplicas, begin_node: BeginNode) -> None:
    """Q16, Q17: served at once, without a place, and the line stays empty."""
    for name in ("node-a", "node-b", "node-c"):
        await begin_node(node_id=name)
    answers = await two.create_at_once(3)
    assert [(a["status"], a["queue_position"]) for a in answers] == [("assigned", None)] * 3
    assert len({a["worker_id"] for a in answers}) == 3
    assert await two.length() == 0


async def test_those_who_come_together_get_places_of_their_own(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q18: twenty at once, twenty places."""
    answers = await two.create_at_once(20)
    assert sorted(a["queue_position"] for a in answers) == list(range(1, 21))


async def test_nobody_is_lost_between_coming_and_going(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q19: while some come, others are served; in the end all were."""
    waiting, served = [], []
    await serve_next(busy)
    for _ in range(10):
        waiting.append(await two.create())
        await busy.beat()
        served.append(await serve_next(busy))
    assert served == waiting


async def test_the_line_is_shown_whole_and_in_order(two: TwoReplicas, busy: PlayedNode) -> None:
    """Q20: how many, how many at most, and each one in its place."""
    waiting = await two.create_many(3)
    lineup = await two.lineup()
    assert (lineup["length"], lineup["max_length"]) == (3, 300)
    assert [(w["position"], w["session_id"]) for w in lineup["waiting"]] == list(
        enumerate(waiting, 1)
    )


async def test_those_on_stage_are_listed_with_their_time(
    two: TwoReplicas, busy: PlayedNode
) -> None:
    """Q21: only those that hold a slot, each with its node and since when."""
    await two.create_many(2)
    (on_stage,) = busy.residents
    await busy.play(on_stage)
    answer = await two.next().get("/v1/stream/sessions", params={"status": "running"})
    (listed,) = answer.json()["sessions"]
    assert (listed["session_id"], listed["node_id"]) == (on_stage, busy.node_id)
    assert listed["updated_at"] >= listed["created_at"] > 0


# Estimates.


async def test_behind_a_taken_slot_there_is_a_wait(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q10: more than nothing, and a range around it."""
    learn(raw_redis, 30, 60, 90)
    answer = (await two.ask()).json()
    low, high = answer["estimated_wait_range_s"]
    assert 0 < low <= answer["estimated_wait_s"] <= high


async def test_nobody_waits_less_than_somebody_ahead(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q11: the estimate grows with the place."""
    learn(raw_redis, 12, 30, 45, 60, 300)
    await two.create_many(12)
    told = await estimates(two)
    assert None not in told
    assert told == sorted(told, key=lambda seconds: seconds or 0)


async def test_until_something_is_learned_the_estimate_is_unknown(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q12: two sessions prove nothing; the third does."""
    await two.create()
    learn(raw_redis, 20, 20)
    assert await estimates(two) == [None]
    learn(raw_redis, 20)

    async def known() -> bool:
        return await estimates(two) != [None]

    await wait_until(known, "three are enough")


async def test_the_estimate_follows_what_sessions_show(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q13: it was learned from long ones, then they become short."""
    learn(raw_redis, *[600] * 10)
    first = (await two.ask()).json()["estimated_wait_s"]
    learn(raw_redis, *[20] * 60)
    second = await wait_until(lambda: _other(two, first), "the next reading has learned")
    assert 500 < first <= 600
    assert 0 < (second or 0) < 100


async def _other(two: TwoReplicas, than: float) -> float | None:
    seen: float = (await two.lineup())["waiting"][0]["estimated_wait_s"]
    return seen if seen != than else None


async def test_it_is_told_what_estimates_are_made_of(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q24: the usual time on stage, from how many sessions, and how many slots there are."""
    learn(raw_redis, 10, 20, 30)
    lineup = await two.lineup()
    assert (lineup["usual_hold_s"], lineup["learned_from"]) == (20, 3)
    assert (lineup["slots"], lineup["slots_taken"]) == (1, 1)


async def test_what_is_left_is_the_usual_time_less_what_has_passed(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q25: 15 s is usual, 5 have passed: about 10 s."""
    learn(raw_redis, 15, 15, 15)
    held_for(raw_redis, busy, 5)
    estimate = (await two.ask()).json()["estimated_wait_s"]
    assert 9 <= estimate <= 10.1


async def test_who_overruns_is_expected_to_end_soon(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q26: never 0, never negative."""
    learn(raw_redis, 15, 15, 15)
    held_for(raw_redis, busy, 500)
    assert 1 <= (await two.ask()).json()["estimated_wait_s"] <= 5


async def test_two_slots_take_turns(
    two: TwoReplicas, begin_node: BeginNode, raw_redis: RawRedis
) -> None:
    """Q27: 10 s and 15 s are left, 20 s is usual: three who wait get on after 10, 15 and 30 s."""
    learn(raw_redis, 20, 20, 20)
    for name, seconds in (("node-a", 10), ("node-b", 5)):
        node = await begin_node(node_id=name)
        await two.create()
        await node.beat()
        held_for(raw_redis, node, seconds)
    await two.create_many(3)
    assert await estimates(two) == [pytest.approx(s, abs=2) for s in (10, 15, 30)]


async def test_the_estimate_falls_as_time_passes(
    two: TwoReplicas, busy: PlayedNode, raw_redis: RawRedis
) -> None:
    """Q28: what is left of the session on stage grows shorter."""
    learn(raw_redis, 60, 60, 60)
    told = [100.0]
    for seconds in (10, 30, 50):
        held_for(raw_redis, busy, seconds)
        session_id = await two.create()
        told.append(await wait_until(lambda: _fallen(two, told[-1]), "a reading after the change"))
        await two.cancel(session_id)
    assert told[1:] == [pytest.approx(s, abs=8) for s in (50, 30, 10)]


async def _fallen(two: TwoReplicas, before: float) -> float:
    """Return the first one's estimate, 0 until it has fallen: each replica reads by itself."""
    waiting = (await two.lineup())["waiting"]
    first = float(waiting[0]["estimated_wait_s"] or 0) if waiting else 0.0
    return first if first < before - 10 else 0.0
