"""read_line: the line, and how long slots are held."""

from __future__ import annotations

from shared.store import replies
from shared.waiting import Line
from tests.support.redis_server import POOL
from tests.support.scenario import START_MS, World, sid


def read(world: World, *, waiting: int = 99, tickets: int = 99, residents: int = 99) -> Line:
    """Call it and decode its reply."""
    word, rest = world.call(
        "read_line", most_waiting=waiting, most_tickets=tickets, most_residents=residents
    )
    assert (word, world.changes) == ("ok", {})
    return replies.line(POOL, rest)


def finish(world: World, letter: str, reason: str = "completed") -> None:
    """Let a session's node confirm its end."""
    owner = world.owner(letter)
    assert world.run("end_session", **owner, reason=reason, error="")[0] == "ended"
    world.lives[str(owner["node_id"])].residents.pop(letter, None)


def test_an_empty_pool(world: World) -> None:
    """Nobody, nothing, and nothing is made."""
    assert read(world) == Line(
        pool=POOL,
        at_s=START_MS / 1000,
        waiting=(),
        tickets=(),
        queued=0,
        slots=0,
        taken=0,
        held_s=(),
        holds_s=(),
    )


def test_it_shows_who_waits_and_since_when_slots_are_held(world: World) -> None:
    """Tickets tell the age; a slot is held from its assignment on."""
    world.add_node("n1", capacity=2)
    world.bring("a", "running")
    world.pass_time(5)
    world.bring("b", "joining_room")
    world.open("c", "d")
    world.pass_time(2)
    line = read(world)
    assert line.waiting == (sid("c"), sid("d"))
    assert line.tickets == (START_MS + 5_001, START_MS + 5_002)
    assert (line.queued, line.slots, line.taken) == (2, 2, 2)
    assert sorted(line.held_s) == [2, 7]


def test_it_looks_at_as_many_as_it_is_asked_to(world: World) -> None:
    """The counts stay whole."""
    world.add_node("n1", capacity=2)
    world.open("a", "b", "c", "d")
    line = read(world, waiting=2, tickets=1, residents=1)
    assert (len(line.waiting), len(line.tickets)) == (2, 1)
    assert (line.queued, len(line.held_s), line.taken) == (2, 1, 2)


def test_only_nodes_that_serve_the_line_are_counted(world: World) -> None:
    """Loading, draining, closed by an operator, without LiveKit or silent: no slot comes of it."""
    world.add_node("n1", state="loading")
    for name in ("n2", "n3", "n4", "n5"):
        world.add_node(name)
    world.beat("n2", draining=1)
    world.run("set_node_admin", **world.order("n3", "draining"))
    world.beat("n4", media_ok=0)
    assert read(world).slots == 1
    world.pass_time(10)
    assert read(world).slots == 0


def test_a_resting_node_still_counts(world: World) -> None:
    """It is back in seconds, and an estimate needn't flicker."""
    world.add_node("n1")
    world.open("a")
    for _ in range(7):
        world.pass_time(1)
        world.beat()
    world.run("sweep_deadlines", budget=64)
    assert (world.free(), read(world).slots) == ([], 1)


def test_how_long_a_slot_was_held_is_learned_from_whoever_ran(world: World) -> None:
    """Until its clean-up was confirmed; newest last."""
    world.add_node("n1", capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    world.pass_time(30)
    finish(world, "a")
    world.run("cancel_session", session_id=sid("b"), reason="client_stop")
    world.pass_time(5)
    finish(world, "b")
    assert read(world).holds_s == (30, 35)


def test_nothing_is_learned_from_faults_and_from_those_who_never_ran(world: World) -> None:
    """Nor from an operator's or node's own cut, a moved session, or a slot that isn't free yet."""
    world.add_node("n1", capacity=6)
    for letter in "abc":
        world.bring(letter, "running")
    world.bring("d", "joining_room")
    world.open("x")
    for letter, reason in (("a", "service_error"), ("b", "admin"), ("c", "node_shutdown")):
        finish(world, letter, reason)
    finish(world, "d", "controller_timeout")
    world.run("cancel_session", session_id=sid("x"), reason="client_stop")
    world.bring("e", "running")
    world.run("give_back", **world.giving("e", "node_shutdown", capacity=6))
    world.bring("e", "running")
    finish(world, "e")
    world.bring("f", "running")
    world.run("cancel_session", session_id=sid("f"), reason="client_stop")
    for _ in range(30):
        world.pass_time(1)
        world.beat()
    world.run("sweep_deadlines", budget=64)
    assert world.session("f").ended
    assert read(world).holds_s == ()


def test_the_last_sixty_four_are_remembered(world: World) -> None:
    """So the estimate follows how people use the model now, and costs nothing to keep."""
    world.raw.rpush(f"{world.prefix}holds", *range(64))
    world.add_node()
    world.bring("a", "running")
    world.pass_time(1)
    finish(world, "a")
    learned = read(world).holds_s
    assert (len(learned), learned[0], learned[-1]) == (64, 0.001, 1)
