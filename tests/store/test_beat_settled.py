"""beat_node: a beat that says what the one before said is answered without a look at sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.scenario import World, listed, sid


def row(world: World, letter: str, *more: str) -> list[str]:
    """One assignment as a reply names it."""
    return [sid(letter), str(world.epoch(letter)), *more]


def settled(world: World) -> None:
    """Two play, and their node has said so twice: nothing is new."""
    world.add_node(capacity=3)
    for letter in "ab":
        world.bring(letter, "running")
    world.beat()
    assert world.fact("n:n1", "settled")


def test_a_beat_without_news_is_answered_in_a_word(world: World) -> None:
    """And renews the lease: what saves work changes nothing else."""
    settled(world)
    world.pass_time(2)
    told = world.call_once("beat_node", **world.beat_of("n1"))
    assert told == ("same", [])
    renewed = {
        "n:n1 stamp": str(world.lives["n1"].stamp),
        "n:n1 beat": str(world.now_ms),
        "nodes n1": str(world.now_ms + 10_000),
    }
    assert world.changes == renewed


def see(world: World, *controllers: int) -> str:
    """Say whether the controller is in a's room and in b's; return the word of the answer."""
    rooms = [
        (letter, world.epoch(letter), 1, here, 1)
        for letter, here in zip("ab", controllers, strict=True)
    ]
    return world.call_once("beat_node", **world.beat_of("n1", residents=listed(*rooms)))[0]


def absent(world: World) -> str:
    """The sessions whose controller is missed."""
    return "".join(one for one in "ab" if world.fact(f"s:{sid(one)}", "t_controller"))


def test_who_is_in_the_rooms_is_news_that_leaves_the_rest_settled(world: World) -> None:
    """It is noted at once, each time, and no other session is looked at."""
    settled(world)
    world.pass_time(8)
    assert see(world, 1, 1) == "ok"
    for controllers, missed in (((0, 1), "a"), ((1, 1), ""), ((0, 1), "a"), ((0, 0), "ab")):
        world.pass_time(1)
        assert see(world, *controllers) == "same"
        assert absent(world) == missed
        assert see(world, *controllers) == "same"
        assert world.changes.keys() == {"n:n1 stamp"}


def test_a_look_at_everything_also_notes_who_is_in_the_rooms(world: World) -> None:
    """What was seen before it doesn't count as seen after it."""
    settled(world)
    assert see(world, 1, 1) == "same"
    world.open("c")
    world.bring("c", "running")
    world.run("end_session", **world.owner("c"), reason="completed", error="")
    assert see(world, 0, 1) == "ok"
    assert absent(world) == "a"
    assert see(world, 1, 1) == "same"
    assert absent(world) == ""


def stop_one(world: World) -> None:
    """A client stops one of them."""
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")


def open_one(world: World) -> None:
    """Another one comes."""
    world.open("c")


def time_one_out(world: World) -> None:
    """The limit of one of them is over."""
    world.pass_time(1)
    world.raw.hset(f"{world.prefix}s:{sid('a')}", "t_session", world.now_ms)
    world.raw.zadd(f"{world.prefix}dl", {sid("a"): world.now_ms})
    world.run("sweep_deadlines", budget=64)


@pytest.mark.parametrize(
    ("happens", "todo", "killed"),
    [
        (stop_one, [], ["client_stop"]),
        (open_one, ["c"], []),
        (time_one_out, [], ["session_timeout"]),
    ],
)
def test_whatever_happens_is_told_in_the_next_beat(
    world: World, happens: Callable[[World], None], todo: list[str], killed: list[str]
) -> None:
    """Though the node says what it said before."""
    settled(world)
    happens(world)
    _, (_, to_do, kills, _) = world.beat()
    assert to_do == [row(world, letter) for letter in todo]
    assert kills == [row(world, "a", reason) for reason in killed]


def test_what_was_settled_before_the_last_beat_doesn_t_count(world: World) -> None:
    """LiveKit was out for one beat, which stopped the timers: they start again."""
    world.add_node()
    world.bring("a", "running")
    alone = listed(("a", world.epoch("a"), 1, 0, 0))
    for _ in range(2):
        world.beat(residents=alone)
    assert world.fact("n:n1", "settled")
    world.beat(residents=alone, media_ok=0)
    assert not world.fact(f"s:{sid('a')}", "t_controller")
    world.beat(residents=alone)
    assert world.fact(f"s:{sid('a')}", "t_controller")


def test_a_session_that_went_elsewhere_is_no_more_owned(world: World) -> None:
    """A node with a higher epoch adopted it: the number of slots taken tells."""
    settled(world)
    epoch, bundle = world.epoch("a"), world.bundle("a")
    world.add_node("n2", capacity=3)
    claim = world.claim("n2", "a", epoch + 50, bundle)
    assert world.run("adopt_session", **claim) == ("adopted", [])
    _, (owned, _, kills, _) = world.beat()
    assert (owned, kills) == ([row(world, "b")], [[sid("a"), str(epoch), "fenced"]])


def test_every_few_beats_everything_is_looked_at(world: World) -> None:
    """A change that left the mark, as the release before this does, is told in eight seconds."""
    settled(world)
    for name, value in (("state", "draining"), ("reason", "admin")):
        world.raw.hset(f"{world.prefix}s:{sid('a')}", name, value)
    kills = []
    for _ in range(4):
        world.pass_time(2)
        kills.append(world.beat()[1][2])
    assert kills == [[], [], [], [row(world, "a", "admin")]]


def test_a_new_life_says_nothing_that_was_said_before(world: World) -> None:
    """What the life before had settled doesn't count for it."""
    settled(world)
    life = world.lives["n1"]
    residents = listed(*life.residents.items())
    anew = world.registration(
        "n1", boot_id="b2", previous=life.incarnation, residents=residents, capacity=3
    )
    life.incarnation = int(str(world.run("register_node", **anew)[1][0]))
    life.stamp = 0
    world.run("cancel_session", session_id=sid("a"), reason="admin")
    assert world.beat()[1][2] == [row(world, "a", "admin")]
