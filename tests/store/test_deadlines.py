"""Each kind of deadline: nothing before it, once at it, with its own reason, whoever sweeps.

Also after all was down, and after the server came back as another run of itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from shared.store.scripts import load
from tests.support.scenario import World, listed, sid

LIMIT_MS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of deadline and what it leads to."""

    name: str
    begin: Callable[[World], None]
    """Have it run for session ``a``, from now on; no other deadline of the session is shorter."""
    becomes: str
    reason: str = ""
    """Why it ended, or is ending; else why it is back in line."""


def wait(world: World) -> None:
    """Nobody asks for a session that waits."""
    world.open("a", d_queued=LIMIT_MS)


def be_assigned(world: World) -> None:
    """Its node beats and doesn't take it."""
    world.add_node("n1")
    world.open("a", d_assigned=LIMIT_MS, d_queued=0)


def join(world: World) -> None:
    """Its worker doesn't get into the room."""
    world.add_node("n1")
    world.bring("a", "joining_room", d_joining=LIMIT_MS, d_queued=0)


def be_without_a_controller(world: World) -> None:
    """Viewers are there, so the room isn't empty; they change nothing."""
    world.add_node("n1")
    world.bring("a", "running", d_controller=LIMIT_MS)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 2)))


def be_empty(world: World) -> None:
    """Nobody is in the room, and controllers may stay away for ever."""
    world.add_node("n1")
    world.bring("a", "running", d_controller=0, d_room_empty=LIMIT_MS)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 0)))


def start(world: World) -> None:
    """The service doesn't come to an end with making its pipeline session."""
    world.add_node("n1")
    world.bring("a", "starting_pipeline", d_starting=LIMIT_MS, d_queued=0)


def play(world: World) -> None:
    """It plays on and on."""
    world.add_node("n1")
    world.bring("a", "running", d_session=LIMIT_MS)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 1, 1)))


def clean_up(world: World) -> None:
    """Its node doesn't confirm the end."""
    world.add_node("n1")
    world.bring("a", "running", d_draining=LIMIT_MS)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")


KINDS = (
    Kind(name="queued", begin=wait, becomes="queued"),
    Kind(name="assigned", begin=be_assigned, becomes="queued", reason="accept_timeout"),
    Kind(name="joining", begin=join, becomes="queued", reason="join_timeout"),
    Kind(
        name="controller",
        begin=be_without_a_controller,
        becomes="draining n1",
        reason="controller_timeout",
    ),
    Kind(name="room_empty", begin=be_empty, becomes="draining n1", reason="room_empty"),
    Kind(name="starting", begin=start, becomes="queued", reason="start_timeout"),
    Kind(name="session", begin=play, becomes="draining n1", reason="session_timeout"),
    Kind(name="draining", begin=clean_up, becomes="closed n1", reason="client_stop"),
)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def pass_seconds(world: World, seconds: int) -> None:
    """Let time pass while the nodes beat; nobody says anything new of rooms."""
    for _ in range(seconds):
        world.pass_time(1)
        for node_id in world.lives:
            world.beat(node_id)


def sweep(world: World) -> list[list[object]]:
    """Sweep as any replica does; returns what was fired: returned, ended, suspects."""
    word, fired = world.run("sweep_deadlines", budget=64)
    assert word == "done"
    return fired  # type: ignore[return-value]


def told(world: World) -> int:
    """How many entries the trail has."""
    return int(world.raw.xlen(f"{world.prefix}ev"))


@each_kind
def test_it_fires_once_when_it_is_due_and_says_why(world: World, kind: Kind) -> None:
    """A second before it nothing happens; the next sweeps of anybody find nothing."""
    kind.begin(world)
    before = world.state("a")
    pass_seconds(world, LIMIT_MS // 1000 - 1)
    assert sweep(world) == [[], [], []]
    assert world.state("a") == before
    pass_seconds(world, 1)
    fired = sweep(world)
    changes = told(world)
    check(world, kind, fired)
    for _ in range(3):
        assert sweep(world) == [[], [], []]
    assert told(world) == changes


@each_kind
def test_while_nothing_ran_the_time_stood_still(world: World, kind: Kind) -> None:
    """Everything was down for an hour: what was left of the limit is still there (R13)."""
    kind.begin(world)
    pass_seconds(world, 5)
    world.restart()
    world.step_clock(3600)
    passed_s, fired = sweep_until_it_fires(world)
    assert 12 <= passed_s <= 15  # of the hour two seconds count
    check(world, kind, fired)
    assert sweep(world) == [[], [], []]


@each_kind
def test_what_was_due_when_the_server_came_back_fires_after_the_grace(
    world: World, kind: Kind
) -> None:
    """Nodes tell first what they play and whom they see (R6); then it fires, once."""
    world.add_node("n0", capacity=0)
    kind.begin(world)
    pass_seconds(world, LIMIT_MS // 1000)
    world.restart()
    passed_s, fired = sweep_until_it_fires(world)
    assert passed_s == 10
    check(world, kind, fired)
    assert sweep(world) == [[], [], []]


def sweep_until_it_fires(world: World) -> tuple[int, list[list[object]]]:
    """Sweep once a second; returns how long it took, and what was fired."""
    before = world.state("a")
    for passed_s in range(40):
        fired = sweep(world)
        if fired != [[], [], []] or world.state("a") != before:
            return passed_s, fired
        pass_seconds(world, 1)
    raise AssertionError("nothing was fired")


def check(world: World, kind: Kind, fired: list[list[object]]) -> None:
    """It led to what it should, and was told to whoever swept exactly if others must act."""
    returned, ended, suspects = fired
    assert world.state("a") == kind.becomes
    record = world.session("a")
    if kind.name == "queued":
        assert [row[0] for row in suspects] == [sid("a")]  # type: ignore[index]
        assert record.reason is None
    elif kind.becomes == "queued":
        assert [(row[0], row[2]) for row in returned] == [(sid("a"), kind.reason)]  # type: ignore[index]
        assert record.returned_because == kind.reason
    else:
        assert record.reason == kind.reason
        assert (ended == []) == (kind.becomes != "closed n1")


def test_every_kind_is_tested() -> None:
    """A new one needs a line here."""
    (names,) = re.findall(r"local DEADLINES = \{([^}]*)\}", load("sweep_deadlines").source)
    assert [kind.name for kind in KINDS] == re.findall(r"'(\w+)'", names)
