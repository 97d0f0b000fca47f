"""beat_node: who is in the room, and which timers follow from it (R10)."""

from __future__ import annotations

from tests.support.scenario import START_MS, World, listed, sid

T = START_MS


def see(world: World, connected: int, controller: int, participants: int, **named: int) -> None:
    """Let the node tell who is in a's room."""
    seen = listed(("a", world.epoch("a"), connected, controller, participants))
    world.call_once("beat_node", **world.beat_of("n1", residents=seen, **named))


def test_joining_is_over_when_the_worker_is_in_the_room(world: World) -> None:
    """From then on the controller's absence counts."""
    world.add_node()
    world.bring("a", "joining_room")
    world.beat(state="busy")
    world.pass_time(3)
    see(world, 1, 0, 0)
    deadline = str(T + 63_000)
    assert world.changes == {
        "s:a connected": "1",
        "s:a controller": "0",
        "s:a participants": "0",
        "s:a t_joining": None,
        "s:a t_controller": deadline,
        "dl a": deadline,
        "n:n1 stamp": "2",
        "n:n1 beat": str(T + 3_000),
        "nodes n1": str(T + 13_000),
    }


def test_absence_counts_from_its_beginning(world: World) -> None:
    """Beats that say it again don't put the end off."""
    world.add_node()
    world.bring("a", "joining_room")
    see(world, 1, 0, 0)
    world.pass_time(5)
    see(world, 1, 0, 0)
    see(world, 1, 0, 1)
    assert world.fact(f"s:{sid('a')}", "t_controller") == str(T + 60_000)


def test_the_controller_s_return_stops_the_timer(world: World) -> None:
    """And its next absence has the whole time again."""
    world.add_node()
    world.bring("a", "running")
    see(world, 1, 0, 0)
    world.pass_time(50)
    see(world, 1, 1, 1)
    assert world.changes["s:a t_controller"] is None
    see(world, 1, 0, 0)
    assert world.changes["s:a t_controller"] == str(T + 110_000)


def test_an_empty_room_has_a_timer_where_no_controller_grace_runs(world: World) -> None:
    """With the controller limit off, the room's emptiness is what counts."""
    world.add_node()
    world.bring("a", "running", d_controller=0)
    see(world, 1, 0, 0)
    assert world.changes["s:a t_room_empty"] == str(T + 30_000)
    see(world, 1, 0, 2)
    assert world.changes["s:a t_room_empty"] is None


def test_who_can_t_see_misses_nobody(world: World) -> None:
    """Without LiveKit presence is unknown: the timers stop, and start anew when it is back."""
    world.add_node()
    world.bring("a", "running")
    see(world, 1, 0, 0)
    assert "s:a t_controller" in world.changes
    world.pass_time(30)
    see(world, 1, 0, 0, media_ok=0)
    assert world.changes["s:a t_controller"] is None
    world.pass_time(300)
    see(world, 1, 0, 0, media_ok=0)
    assert "s:a t_controller" not in world.changes
    see(world, 1, 0, 0)
    assert world.changes["s:a t_controller"] == str(T + 390_000)


def test_presence_that_didn_t_change_needn_t_be_told_again(world: World) -> None:
    """When LiveKit is back the registry goes by what it was told before."""
    world.add_node()
    world.bring("a", "running", d_controller=0)
    see(world, 1, 0, 0)
    world.beat(media_ok=0)
    assert world.fact(f"s:{sid('a')}", "t_room_empty") == ""
    world.pass_time(60)
    world.beat()
    assert world.fact(f"s:{sid('a')}", "t_room_empty") == str(T + 90_000)


def test_presence_before_accepting_starts_nothing(world: World) -> None:
    """The accept limit alone runs then."""
    world.add_node()
    world.open("a")
    see(world, 0, 0, 0)
    assert not any(fact.startswith("s:a") for fact in world.changes)


def test_leftovers_say_nothing_of_who_is_in_the_room(world: World) -> None:
    """The session runs elsewhere; the old worker's view of the room must start no timer there."""
    world.add_node("n1")
    world.bring("a", "starting_pipeline", d_starting=1_000)
    old = world.epoch("a")
    world.pass_time(1)
    world.run("sweep_deadlines", budget=64)
    assert world.slots() == ["!a"]
    world.add_node("n2")
    world.bring("a", "running")
    world.beat("n2", residents=listed(("a", world.epoch("a"), 1, 1, 1)))
    world.beat("n1", residents=listed(("a", old, 1, 0, 0)))
    assert world.state("a") == "running n2"
    assert world.fact(f"s:{sid('a')}", "controller") == "1"
    assert world.fact(f"s:{sid('a')}", "t_controller") == ""
