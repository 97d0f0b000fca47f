"""sweep_deadlines: only this script fires deadlines, each once."""

from __future__ import annotations

import pytest

from shared.store import replies
from tests.support.scenario import START_MS, World, listed, sid

T = START_MS


def sweep(world: World, budget: int = 64) -> tuple[str, list[object]]:
    """Call it; the repeat may change nothing."""
    return world.call("sweep_deadlines", budget=budget)


def keep_alive(world: World, seconds: int) -> None:
    """Let time pass while every node beats."""
    for _ in range(seconds):
        world.pass_time(1)
        for node_id in world.lives:
            world.beat(node_id)


def test_nothing_fires_early(world: World) -> None:
    """One millisecond before is before."""
    world.open("a")
    world.pass_time(59.999)
    assert sweep(world) == ("done", [[], [], []])
    assert world.changes == {}


def test_a_silent_waiter_is_suspected_and_keeps_its_place(world: World) -> None:
    """The waiting lease is over (R10): whoever sweeps is to look into its room."""
    world.open("a", "b")
    world.pass_time(30)
    world.run("touch_sessions", session_ids=sid("b"), replica="")
    world.pass_time(30)
    again = str(T + 70_000)
    suspect = [sid("a"), world.fact(f"s:{sid('a')}", "ver"), again]
    assert sweep(world) == ("done", [[], [], [suspect]])
    assert world.changes == {"s:a t_queued": again, "dl a": again}
    assert world.line() == "ab"


def test_a_suspect_that_nobody_settled_is_asked_for_again(world: World) -> None:
    """The replica that was told may have died before it could look."""
    world.open("a")
    world.pass_time(60)
    sweep(world)
    world.pass_time(9.999)
    assert sweep(world) == ("done", [[], [], []])
    world.pass_time(0.001)
    assert len(sweep(world)[1][2]) == 1  # type: ignore[arg-type]


def test_an_assignment_that_nobody_accepts_goes_elsewhere(world: World) -> None:
    """The node beats and doesn't take it: two counts, a strike, and its slot stays taken."""
    world.add_node("n1")
    world.open("a")
    world.add_node("n2")
    keep_alive(world, 7)
    word, (returned, ended, _) = sweep(world)
    assert (word, ended) == ("done", [])
    assert returned == [[sid("a"), str(world.epoch("a") - 1), "accept_timeout"]]
    assert world.count("a") == 2
    assert world.changes["n:n1 strikes"] == "1"
    assert world.changes["n:n1 !a"] == "8"
    assert (world.slots("n1"), world.state("a")) == (["!a"], "assigned n2")


def test_a_node_that_hasn_t_beaten_since_is_not_to_blame(world: World) -> None:
    """It may be frozen: nothing is counted, neither for the session nor for the node."""
    world.add_node(ttl_ms=60_000)
    world.open("a")
    world.pass_time(7)
    assert sweep(world)[1][0] == [[sid("a"), str(world.epoch("a")), "accept_timeout"]]
    assert world.count("a") == 0
    assert "n:n1 strikes" not in world.changes
    assert world.slots() == ["!a"]


def test_a_join_that_takes_too_long_goes_elsewhere(world: World) -> None:
    """Counted and a strike; once the worker is in the room this limit is over."""
    world.add_node("n1", capacity=2)
    world.bring("a", "joining_room")
    world.bring("b", "joining_room")
    connected = listed(("a", world.epoch("a")), ("b", world.epoch("b"), 1, 1, 1))
    world.beat(residents=connected)
    for _ in range(15):
        world.pass_time(1)
        world.beat(residents=connected)
    assert [row[2] for row in sweep(world)[1][0]] == ["join_timeout"]  # type: ignore[attr-defined]
    assert world.count("a") == 2
    assert world.changes["n:n1 strikes"] == "1"
    assert (world.state("a"), world.state("b")) == ("queued", "joining_room n1")


def test_a_start_that_takes_too_long_goes_elsewhere(world: World) -> None:
    """Counted, but no strike: the service is to blame, not the node."""
    world.add_node()
    world.bring("a", "starting_pipeline", d_starting=12_000)
    keep_alive(world, 12)
    _, (returned, *_) = sweep(world)
    assert returned == [[sid("a"), str(world.epoch("a")), "start_timeout"]]
    assert world.count("a") == 2
    assert "n:n1 strikes" not in world.changes
    assert world.slots() == ["!a"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("assigned", "join_timeout"),
        ("joining_room", "join_timeout"),
        ("starting_pipeline", "start_timeout"),
    ],
)
def test_the_third_failure_ends_it_with_the_last_cause(
    world: World, state: str, reason: str
) -> None:
    """A session that fails wherever it goes doesn't go round for ever."""
    world.open("a", d_starting=5_000, d_joining=5_000, d_assigned=5_000)
    for name in ("n1", "n2", "n3"):
        world.add_node(name)
        world.bring("a", state)
        keep_alive(world, 5)
        _, (_, ended, _) = sweep(world)
        world.lives[name].residents.clear()
        world.lives[name].capacity = 0
        world.beat(name)
    assert ended == [[sid("a"), reason, {"assigned": "accept_timeout"}.get(state, reason)]]
    assert world.session("a").state == "failed"


def test_an_absent_controller_ends_the_session(world: World) -> None:
    """It drains: the node cleans up, then the slot goes on."""
    world.add_node()
    world.bring("a", "running")
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 1)))
    keep_alive(world, 60)
    assert sweep(world) == ("done", [[], [], []])
    assert world.changes["s:a state"] == "draining"
    assert world.changes["s:a reason"] == "controller_timeout"
    assert world.slots() == ["a"]


def test_an_empty_room_ends_the_session(world: World) -> None:
    """Where the controller limit is off."""
    world.add_node()
    world.bring("a", "running", d_controller=0)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 0)))
    keep_alive(world, 30)
    sweep(world)
    assert world.changes["s:a reason"] == "room_empty"


def test_the_session_limit_ends_the_session(world: World) -> None:
    """Counted from the first admission."""
    world.add_node()
    world.bring("a", "running", d_session=20_000)
    keep_alive(world, 19)
    assert sweep(world) == ("done", [[], [], []])
    keep_alive(world, 1)
    sweep(world)
    assert world.changes["s:a reason"] == "session_timeout"
    assert world.changes["s:a t_draining"] == str(T + 50_000)


def test_the_session_limit_of_a_silent_node_waits_for_its_next_beat(world: World) -> None:
    """If it is dead the user had nothing of these seconds, and gets them back elsewhere."""
    world.add_node()
    world.bring("a", "running", d_session=20_000)
    keep_alive(world, 16)
    world.pass_time(6)
    assert sweep(world) == ("done", [[], [], []])
    assert world.changes["s:a t_session"] == str(world.registry_ms + 1_000)
    world.pass_time(4)
    world.run("sweep_nodes", budget=64)
    assert world.state("a") == "queued"
    assert int(world.fact(f"s:{sid('a')}", "left")) >= 4_000


def test_the_session_limit_of_a_node_that_was_only_late_fires(world: World) -> None:
    """It beats again: the session played all the while."""
    world.add_node()
    world.bring("a", "running", d_session=20_000)
    keep_alive(world, 16)
    world.pass_time(6)
    sweep(world)
    keep_alive(world, 2)
    sweep(world)
    assert world.state("a") == "draining n1"


def test_cleanup_that_takes_too_long_ends_without_the_node(world: World) -> None:
    """The session is over for its client; its slot stays taken until the node confirms (R9)."""
    world.add_node()
    world.bring("a", "running")
    world.open("b", d_queued=0)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    keep_alive(world, 30)
    stamp = world.lives["n1"].stamp
    assert sweep(world) == ("done", [[], [[sid("a"), "client_stop", "draining"]], []])
    assert world.changes["s:a state"] == "closed"
    assert world.changes["ns:n1 a"] is None
    assert world.changes["ns:n1 !a"] == str(world.epoch("a"))
    assert world.changes["n:n1 !a"] == str(stamp + 1)
    keep_alive(world, 5)
    assert (world.slots(), world.line()) == (["!a"], "b")
    world.lives["n1"].residents.clear()
    keep_alive(world, 1)
    assert (world.slots(), world.state("b")) == (["b"], "assigned n1")


def test_a_quarantined_slot_is_empty_when_its_node_has_died(world: World) -> None:
    """Nothing is left of it on a machine that is gone."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    keep_alive(world, 30)
    sweep(world)
    world.kill("n1")
    assert world.slots() == []
    assert world.fact("n:n1", "!a") == ""


def test_one_call_fires_what_its_budget_allows(world: World) -> None:
    """The earliest first; `more` asks for another call."""
    world.open("a", "b", "c")
    world.pass_time(60)
    word, (*_, silent) = world.call_once("sweep_deadlines", budget=2)
    assert (word, [one.session_id for one in replies.suspects(silent)]) == (
        "more",
        [sid("a"), sid("b")],
    )
    word, (*_, silent) = sweep(world, budget=2)
    assert (word, [one.session_id for one in replies.suspects(silent)]) == ("done", [sid("c")])


def test_the_earliest_of_several_deadlines_fires(world: World) -> None:
    """The session limit and the controller's absence are both over: the older one is the reason."""
    world.add_node(ttl_ms=3_600_000)
    world.bring("a", "running", d_session=50_000)
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 0)))
    world.pass_time(3_000)
    world.beat(residents=listed(("a", world.epoch("a"))))
    sweep(world)
    assert world.changes["s:a reason"] == "session_timeout"


def test_a_deadline_without_a_session_is_forgotten(world: World) -> None:
    """An entry that lost its record can't stop the sweep."""
    world.raw.zadd(f"{world.prefix}dl", {sid("x"): T - 1})
    assert sweep(world) == ("done", [[], [], []])
    assert world.changes["dl x"] is None


@pytest.mark.parametrize("step_s", [3_600, 4.5, -3_600])
def test_a_stepped_clock_fires_nothing(world: World, step_s: float) -> None:
    """Registry time moves at most two seconds for it: every deadline keeps its distance (R13)."""
    world.add_node()
    world.bring("a", "running")
    world.beat(residents=listed(("a", world.epoch("a"), 1, 0, 0)))
    world.open("b")
    world.step_clock(step_s)
    assert world.call_once("sweep_deadlines", budget=64) == ("done", [[], [], []])
    assert world.call("sweep_nodes", budget=64) == ("done", [[], [], []])
    assert world.registry_ms == T + (2_000 if step_s > 0 else 0)
    assert (world.state("a"), world.state("b")) == ("running n1", "queued")


@pytest.mark.parametrize("hours", [1, -1])
def test_deadlines_fire_on_time_after_a_stepped_clock(world: World, hours: int) -> None:
    """The step costs nobody an hour, neither way."""
    world.open("a")
    world.step_clock(hours * 3600)
    world.run("sweep_deadlines", budget=64)
    for _ in range(57):
        world.step_clock(1)
        assert world.run("sweep_deadlines", budget=64) == ("done", [[], [], []])
    silent: list[str] = []
    for _ in range(3):
        world.step_clock(1)
        _, (*_, suspects) = world.run("sweep_deadlines", budget=64)
        silent += [one.session_id for one in replies.suspects(suspects)]
    assert silent == [sid("a")]


def test_a_stall_of_everybody_fires_nothing(world: World) -> None:
    """Redis was paused for ten minutes: nobody could beat or ask, so nobody is late."""
    world.add_node()
    world.bring("a", "running")
    world.open("b")
    world.step_clock(600)
    assert world.run("sweep_nodes", budget=64) == ("done", [[], [], []])
    assert world.run("sweep_deadlines", budget=64) == ("done", [[], [], []])
    assert world.beat()[0] == "ok"
