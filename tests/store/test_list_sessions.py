"""list_sessions: who stands in line, on a node, among the ended."""

from __future__ import annotations

from shared.store import replies
from tests.support.scenario import START_MS, World, sid


def listed(world: World, place: str, after: str = "", count: int = 9) -> tuple[str, str, str]:
    """Return the word, the sessions by letter (. for none), and where the last one stands."""
    begin = after or ("+inf" if place == "ended" else "-inf")
    word, (rows,) = world.call("list_sessions", place=place, after=begin, count=count)
    assert world.changes == {}
    found = replies.rows(rows)
    letters = "".join(replies.session(told).session_id[-1] if told else "." for _, told in found)
    return word, letters, found[-1][0] if found else ""


def test_nobody_stands_anywhere(world: World) -> None:
    """An empty place is no fault."""
    assert [listed(world, place) for place in ("q", "n:n1", "ended")] == [("last", "", "")] * 3


def test_the_line_is_listed_in_order_a_page_at_a_time(world: World) -> None:
    """Each page begins behind the last one's end, also if that session has left meanwhile."""
    world.open("a", "b", "c", "d", "e")
    word, letters, after = listed(world, "q", count=2)
    assert (word, letters) == ("some", "ab")
    world.run("cancel_session", session_id=sid("b"), reason="client_stop")
    assert listed(world, "q", after, count=3)[:2] == ("some", "cde")
    assert listed(world, "q", after, count=4)[:2] == ("last", "cde")


def test_a_node_s_sessions_are_listed_by_epoch(world: World) -> None:
    """A quarantined slot is none."""
    world.add_node("n1", capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    for _ in range(30):
        world.pass_time(1)
        world.beat()
    world.run("sweep_deadlines", budget=64)
    assert listed(world, "n:n1")[:2] == ("last", ".bc")
    assert listed(world, "ended")[:2] == ("last", "a")


def test_ended_sessions_are_listed_newest_first(world: World) -> None:
    """As long as their records are kept."""
    world.open("a", "b", "c")
    for letter in "bca":
        world.pass_time(1)
        world.run("cancel_session", session_id=sid(letter), reason="client_stop")
    word, letters, after = listed(world, "ended", count=2)
    assert (word, letters) == ("some", "ac")
    assert listed(world, "ended", after)[:2] == ("last", "b")
    world.raw.delete(f"{world.prefix}s:{sid('c')}")
    assert listed(world, "ended")[:2] == ("last", "a.b")


def test_old_ends_are_forgotten_by_and_by(world: World) -> None:
    """A few leave with each new one, and all of them an hour after the last one."""
    old = {sid(letter): START_MS - 1000 - n for n, letter in enumerate("bcdefghijkl")}
    world.raw.zadd(f"{world.prefix}ended", old)
    world.open("a")
    world.pass_time(3600)
    world.call("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.raw.zcard(f"{world.prefix}ended") == len(old) - 8 + 1
    assert world.changes["ended ttl"] == "3600"
