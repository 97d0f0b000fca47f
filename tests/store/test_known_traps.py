"""What broke earlier designs, step by step, on the real scripts.

Each was found with an executable model of a design that had looked right. Those that need processes
are traps of ``scripts/chaos``.
"""

from __future__ import annotations

import pytest

from shared.store import replies
from tests.support.scenario import World, sid

MATES = "bcdefghi"
NODES = ("n1", "n2", "n3", "n4")


def beat_all(world: World) -> None:
    """Let every node that has a life say so."""
    for node_id in world.lives:
        world.beat(node_id)


def node_of(world: World, letter: str) -> str:
    """Return who holds a session."""
    return world.fact(f"s:{sid(letter)}", "node")


def die(world: World, node_id: str) -> None:
    """Let a process die under its sessions; the others beat on until that is known."""
    world.lives.pop(node_id)
    for _ in range(6):
        world.pass_time(2)
        beat_all(world)
        world.run("sweep_nodes", budget=64)


def serve_all(world: World, letters: str, *, but: str) -> None:
    """Let everybody who has a slot play, except *but*."""
    for letter in letters:
        if letter != but and world.state(letter).startswith("assigned"):
            world.bring(letter, "running")


@pytest.mark.parametrize("place", [0, 4, 8])
def test_a_poison_session_takes_none_of_its_eight_mates_along(world: World, place: int) -> None:
    """Wherever it stands in the line: it ends after three deaths, all others play on."""
    letters = MATES[:place] + "a" + MATES[place:]
    for node_id in NODES:
        world.add_node(node_id, capacity=9)
    for node_id in NODES[1:]:
        world.run("set_node_admin", **world.order(node_id, "draining"))
    world.open(*letters)
    assert world.slots("n1") == sorted(letters)
    for node_id in NODES[1:]:
        world.run("set_node_admin", **world.order(node_id, "open"))
    deaths = 0
    while world.state("a").startswith("assigned"):
        serve_all(world, letters, but="a")
        world.bring("a", "starting_pipeline")  # which kills the process
        dead = node_of(world, "a")
        die(world, dead)
        world.add_node(dead, capacity=9, boot_id=f"boot-{deaths}")
        deaths += 1
    assert (deaths, world.session("a").reason) == (3, "recovery_limit")
    serve_all(world, MATES, but="a")
    assert {world.state(letter).split()[0] for letter in MATES} == {"running"}
    assert max(map(world.count, MATES)) <= 3


def test_four_of_six_nodes_killed_at_once_lose_nobody(world: World) -> None:
    """Declared dead two a second; all step onto what is left in the order of their tickets."""
    for number in range(1, 7):
        world.add_node(f"n{number}", capacity=2)
    letters = "abcdefghijkl"
    for letter in letters:
        world.bring(letter, "running")
    killed = ("n1", "n2", "n3", "n4")
    served = [letter for letter in letters if node_of(world, letter) not in killed]
    lost = [letter for letter in letters if letter not in served]
    world.open("z")
    for node_id in killed:
        world.lives.pop(node_id)
    deaths = []
    for _ in range(8):
        world.pass_time(2)
        beat_all(world)
        _, (dead, _, ended) = world.run("sweep_nodes", budget=64)
        deaths.append(len(replies.fields(dead)))
        assert ended == []
    assert [count for count in deaths if count] == [2, 2]
    assert world.line() == "".join(lost) + "z"
    for letter in served:
        owner = world.owner(letter)
        world.run("end_session", **owner, reason="completed", error="")
    assert [letter for letter in lost if world.state(letter).startswith("assigned")] == lost[:4]


def test_a_node_that_beats_but_never_accepts_keeps_nobody(world: World) -> None:
    """Whoever it was given is back in time, it's given less and less, and all get on elsewhere."""
    world.add_node("n1", capacity=2)
    world.open(*"abcd")
    given = 0
    for _ in range(30):
        before = world.slots("n1")
        world.pass_time(2)
        world.beat("n1")
        world.run("sweep_deadlines", budget=64)
        given += len({*world.slots("n1")} & {*"abcd"} - {*before})
    assert world.fact("n:n1", "judged") == "suspect"
    assert given <= 6
    world.add_node("n2", capacity=4)
    for _ in range(10):
        world.pass_time(2)
        beat_all(world)
        world.run("sweep_deadlines", budget=64)
        for letter in "abcd":
            if world.state(letter) == "assigned n2":
                world.bring(letter, "running")
    assert [world.state(letter) for letter in "abcd"] == ["running n2"] * 4
    assert world.line() == ""


def test_a_crash_and_an_instant_new_process_get_the_session_once(world: World) -> None:
    """The new process waits for the old one's lease, then plays it under a new epoch."""
    world.add_node("n1")
    world.bring("a", "running")
    before = world.epoch("a")
    early = world.registration("n1", boot_id="boot-of-the-next")
    assert world.run("register_node", **early)[0] == "wait"
    assert world.state("a") == "running n1"
    world.kill("n1")
    assert world.line() == "a"
    word, (incarnation, *_) = world.run("register_node", **early)
    assert word == "registered"
    world.lives["n1"].incarnation = int(str(incarnation))
    world.lives["n1"].residents.clear()
    world.pass_time(6)  # it rests after the death
    world.beat("n1")
    world.run("sweep_nodes", budget=64)
    assert world.state("a") == "assigned n1"
    assert world.epoch("a") > before
