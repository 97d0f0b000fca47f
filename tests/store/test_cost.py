"""How many commands does each script run?

Microseconds are others on every machine; the number of commands inside of a script is not, and two
thirds of a script's time are its commands. Each limit is what the script needs today and a little
more: a change that goes above it must be worth it, and then raises the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from shared.store import replies
from shared.store.scripts import Argument, all_names
from tests.support.inner_commands import count_inner
from tests.support.redis_server import POOL
from tests.support.scenario import World, listed, sid

PLAYING = "abcdefgh"
WAITING = "ijklmnopqr"

Arguments = dict[str, Argument]


class Case(NamedTuple):
    """One call in a pool where eight play on one node and ten wait."""

    what: str
    script: str
    word: str
    """What it answers: a call that is refused is a cheap one."""
    at_most: int
    arguments: Callable[[World], Arguments]


def a_full_pool(world: World) -> World:
    """Eight play on ``n1``, which has told so in a beat, and ten wait."""
    world.add_node("n1", capacity=len(PLAYING))
    for letter in PLAYING:
        world.bring(letter, "running")
    world.beat("n1")
    world.open(*WAITING)
    return world


def room_for_one(world: World) -> Arguments:
    """Somebody comes for whom there is a slot: all who waited have one, too."""
    world.add_node("n2", capacity=len(WAITING) + 1)
    return world.opening("z")


def same_beat(world: World) -> Arguments:
    """It said so two seconds ago."""
    world.beat("n1")
    return world.beat_of("n1")


def beat_with_news(world: World) -> Arguments:
    """A controller has come into each room."""
    seen = [(letter, epoch, 1, 1, 2) for letter, epoch in world.lives["n1"].residents.items()]
    return world.beat_of("n1", residents=listed(*seen))


def silent_node(world: World) -> Arguments:
    """The node with all who play dies; another one has room."""
    world.add_node("n2", capacity=20)
    world.pass_time(6)
    world.beat("n2")
    world.pass_time(6)
    return {"budget": 64}


def node_to_retire(world: World) -> Arguments:
    """A node says goodbye after it gave all back."""
    life = world.add_node("n2", capacity=1, state="loading")
    return {"node_id": "n2", "incarnation": life.incarnation}


def one_abandoned(world: World) -> Arguments:
    """The first of those that wait is silent for too long, the others ask."""
    world.pass_time(59)
    world.beat("n1")
    world.run("touch_sessions", session_ids=ids(WAITING[1:]), replica="")
    world.pass_time(1)
    return {"budget": 64}


def lost_session(world: World) -> Arguments:
    """The registry has lost the first session."""
    epoch, bundle = world.epoch("a"), world.bundle("a")
    names = ("s", "sd", "sp")
    world.raw.delete(*(f"{world.prefix}{kind}:{sid('a')}" for kind in names))
    world.raw.zrem(f"{world.prefix}ns:n1", sid("a"))
    world.raw.zrem(f"{world.prefix}dl", sid("a"))
    return world.claim("n1", "a", epoch, bundle)


def ids(letters: Iterable[str]) -> str:
    """Return session ids as `touch_sessions` takes them."""
    return " ".join(map(sid, letters))


def accepted(letter: str, target: str, before: str = "") -> Callable[[World], Arguments]:
    """Return the next step of a session on a node that has room."""

    def step(world: World) -> Arguments:
        world.add_node("n2", capacity=1)
        if before:
            world.bring(letter, before)
        return world.step(letter, target)

    return step


def again(world: World) -> Arguments:
    """The same request under the same key."""
    key: Arguments = {"idempotency_hash": "ab12", "fingerprint": "f"}
    world.open("z", **key)
    return world.opening("y", **key)


def silent_waiter(world: World) -> Arguments:
    """The client of the first that waits isn't in its room either."""
    arguments = one_abandoned(world)
    _, (_, _, suspects) = world.run("sweep_deadlines", **arguments)
    name, version, lease = replies.rows(suspects)[0]
    return {"session_id": name, "version": version, "lease": lease, "present": 0}


def seen(letter: str) -> Arguments:
    """Name one session."""
    return {"session_id": sid(letter)}


def key_to_revoke(world: World) -> Arguments:
    """There is one."""
    world.run("add_key", **NEW_KEY)
    return {"key_id": "k1", "who": "ann"}


NEW_KEY: Arguments = {"key_id": "k1", "record": "{}", "told": "a: read", "who": "ann", "most": 9}
SWEEP: Arguments = {"budget": 64}
IMAGE: Arguments = {"session_id": sid("z"), "image": b"jpeg", "budget_bytes": 100}
ESTIMATE: Arguments = {"middle_ms": 9, "low_ms": 5, "high_ms": 20}
GIVEN: Arguments = {
    "why": "service_lost",
    "capacity": 8,
    "media_ok": 1,
    "unplayed_ms": 0,
    "earlier_ms": 0,
}
ONE_ENDED = listed(("z", 1, "completed"))
DONE: Arguments = {"reason": "completed", "error": ""}

# fmt: off
CASES = (
    Case("come and wait", "open_session", "created", 31, lambda w: w.opening("z", queue_size=999)),
    Case("come and be served", "open_session", "created", 57, room_for_one),
    Case("come again under a key", "open_session", "exists", 13, again),
    Case("find the line full", "open_session", "full", 8, lambda w: w.opening("z", queue_size=10)),
    Case("send an image", "put_image", "ok", 5, lambda w: IMAGE),
    Case("ask for one place", "touch_sessions", "ok", 12,
         lambda w: {"session_ids": sid("k"), "replica": "r"}),
    Case("ask for ten places", "touch_sessions", "ok", 79,
         lambda w: {"session_ids": ids(WAITING), "replica": ""}),
    Case("read one session", "read_session", "ok", 5, lambda w: seen("k")),
    Case("be promised a wait", "note_estimate", "noted", 4, lambda w: seen("k") | ESTIMATE),
    Case("be counted", "count_people", "noted", 3,
         lambda w: seen("k") | {"epoch": 0, "people": 2}),
    Case("leave the line", "cancel_session", "ended", 29,
         lambda w: seen("k") | {"reason": "admin"}),
    Case("stop to play", "cancel_session", "draining", 20,
         lambda w: seen("a") | {"reason": "admin"}),
    Case("be taken out of line", "cancel_waiting", "ended", 29,
         lambda w: seen("k") | {"reason": "admin"}),
    Case("give up a place", "settle_waiting", "abandoned", 27, silent_waiter),
    Case("beat, eight looked at", "beat_node", "ok", 30,
         lambda w: w.beat_of("n1", ended=ONE_ENDED)),
    Case("beat, the same again", "beat_node", "same", 9, same_beat),
    Case("beat, news of eight", "beat_node", "same", 50, beat_with_news),
    Case("accept", "advance_session", "moved", 19, accepted("i", "joining_room")),
    Case("start", "advance_session", "moved", 19,
         accepted("i", "starting_pipeline", "joining_room")),
    Case("begin to play", "advance_session", "moved", 29,
         accepted("i", "running", "starting_pipeline")),
    Case("play a first frame", "note_first_frame", "noted", 16, lambda w: w.frame("a")),
    Case("give back lost seconds", "credit_session", "credited", 18,
         lambda w: w.owner("a") | {"lost_ms": 700}),
    Case("end, the next steps up", "end_session", "ended", 74, lambda w: w.owner("a") | DONE),
    Case("give back, the next steps up", "give_back", "returned", 78,
         lambda w: w.owner("a") | GIVEN),
    Case("ask for a higher epoch", "rebase_epoch", "rebased", 20,
         lambda w: w.owner("a") | {"seen": w.epoch("a") + 9}),
    Case("bring a lost one back", "adopt_session", "adopted", 55, lost_session),
    Case("keep what must be kept", "read_bundle", "ok", 7, lambda w: seen("a")),
    Case("register, ten step up", "register_node", "registered", 302,
         lambda w: w.registration("n2", capacity=16)),
    Case("tell of a load", "note_progress", "noted", 5,
         lambda w: {"node_id": "n1", "incarnation": w.lives["n1"].incarnation, "progress": "{}"}),
    Case("tell of its play", "note_play", "noted", 5,
         lambda w: {"node_id": "n1", "incarnation": w.lives["n1"].incarnation, "play": "{}"}),
    Case("retire", "retire_node", "retired", 22, node_to_retire),
    Case("drain a node", "set_node_admin", "set", 20, lambda w: w.order("n1", "draining")),
    Case("drain a node live", "set_node_admin", "set", 20,
         lambda w: w.order("n1", "draining", move_in_ms=9_000)),
    Case("limit a node", "set_node_capacity", "set", 20, lambda w: w.limit("n1", 1)),
    Case("sweep nodes in vain", "sweep_nodes", "done", 11, lambda w: SWEEP),
    Case("sweep a node of eight", "sweep_nodes", "done", 434, silent_node),
    Case("sweep deadlines in vain", "sweep_deadlines", "done", 8, lambda w: SWEEP),
    Case("sweep a deadline", "sweep_deadlines", "done", 13, one_abandoned),
    Case("read the line", "read_line", "ok", 19,
         lambda w: {"most_waiting": 99, "most_tickets": 9, "most_residents": 99}),
    Case("count the pool", "snapshot", "ok", 19, lambda w: {"waiting_shown": 99}),
    Case("list ten", "list_sessions", "last", 34,
         lambda w: {"place": "q", "after": 0, "count": 99}),
    Case("add a key", "add_key", "added", 6, lambda w: NEW_KEY),
    Case("revoke a key", "revoke_key", "revoked", 5, key_to_revoke),
    Case("draw an allowance", "draw_allowance", "drawn", 4,
         lambda w: {"holder_hash": "ab", "per_1000_s": 1_000_000, "most": 9, "wanted": 1}),
    Case("note an act", "note_act", "noted", 4,
         lambda w: {"act_id": "a", "act": "drain", "subject": "n1", "who": "b", "outcome": "done"}),
    Case("look at one and its node", "inspect", "ok", 31,
         lambda w: {"session_ids": sid("a"), "node_ids": "n1"}),
)
# fmt: on

WHATEVER_THE_LINE = (
    "come and wait",
    "ask for one place",
    "read one session",
    "leave the line",
    "beat, eight looked at",
    "end, the next steps up",
    "sweep nodes in vain",
    "sweep deadlines in vain",
    "count the pool",
)
AS_LETTERS = str.maketrans("0123456789", "abcdefghij")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what.replace(" ", "-"))
def test_a_script_runs_no_more_commands_than_it_needs(world: World, case: Case) -> None:
    """The limit is stated beside the call."""
    arguments = case.arguments(a_full_pool(world))
    (word, _), inner = count_inner(world, case.script, arguments)
    assert word == case.word
    told = ", ".join(f"{name} {calls}" for name, calls in inner.most_common())
    assert inner.total() <= case.at_most, f"{inner.total()} commands: {told}"


def test_every_script_has_a_limit() -> None:
    """A new script comes with its cost."""
    assert {case.script for case in CASES} == set(all_names())


@pytest.mark.parametrize("what", WHATEVER_THE_LINE)
def test_a_long_line_costs_no_command_more(world: World, what: str) -> None:
    """Nobody who comes, asks, leaves or plays pays for those behind."""
    (case,) = (case for case in CASES if case.what == what)
    a_full_pool(world)
    for number in range(100):
        name = f"{POOL}-{number:y>26}".translate(AS_LETTERS)
        opening = world.opening("z", queue_size=999, session_id=name)
        assert world.run("open_session", **opening)[0] == "created"
    (word, _), inner = count_inner(world, case.script, case.arguments(world))
    assert (word, inner.total() <= case.at_most) == (case.word, True)
