"""advance_session: one step along, in the name of the node that holds the session."""

from __future__ import annotations

import pytest

from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_accepting_starts_the_joining_limit(world: World) -> None:
    """The accept limit gives way; the quoted stamp is kept as the acknowledgement."""
    life = world.add_node()
    world.open("a")
    world.beat()
    world.pass_time(1)
    life.residents["a"] = world.epoch("a")
    assert world.call("advance_session", **world.step("a", "joining_room")) == (
        "moved",
        ["joining_room"],
    )
    assert world.changes == {
        "s:a state": "joining_room",
        "s:a acked": "1",
        "s:a t_assigned": None,
        "s:a t_joining": str(T + 16_000),
        "dl a": str(T + 16_000),
        "s:a ver": str(T + 1_000),
        "s:a updated": str(T + 1_000),
        "ctr version": str(T + 1_000),
        "ev 4": "joining_room a n1",
    }


def test_starting_starts_its_own_limit(world: World) -> None:
    """The session's limit for starting holds where the service declares none."""
    world.add_node()
    world.bring("a", "joining_room")
    world.call("advance_session", **world.step("a", "starting_pipeline"))
    assert world.changes["s:a state"] == "starting_pipeline"
    assert world.changes["s:a t_joining"] is None
    assert world.changes["s:a t_starting"] == world.changes["dl a"] == str(T + 120_000)


def test_a_service_may_declare_its_start_limit(world: World) -> None:
    """A service that needs ten minutes gets them."""
    world.add_node(start_ms=600_000)
    world.bring("a", "starting_pipeline")
    assert world.fact(f"s:{sid('a')}", "t_starting") == str(T + 600_000)


def test_running_keeps_the_service_s_id(world: World) -> None:
    """From here on only the session limit runs, and the node's strikes are forgotten."""
    world.add_node()
    world.bring("a", "starting_pipeline")
    running = world.step("a", "running", pipeline_session_id="p-1")
    assert world.call("advance_session", **running) == ("moved", ["running"])
    assert world.changes == {
        "s:a state": "running",
        "s:a started": str(T),
        "sd:a pipeline_session_id": "p-1",
        "s:a t_starting": None,
        "dl a": str(T + 1_800_000),
        "s:a ver": str(T + 4),
        "ctr version": str(T + 4),
        "ev 6": "running a n1",
    }


def test_a_node_is_clear_once_a_session_runs_there(world: World) -> None:
    """Three failures made it suspect; one success is enough, and the line is served at once."""
    world.add_node(capacity=2)
    world.bring("a", "starting_pipeline")
    world.raw.hset(f"{world.prefix}n:n1", mapping={"strikes": 3, "judged": "suspect", "struck": T})
    world.raw.hset(f"{world.prefix}n:n1", "rest", T + 30_000)
    world.beat()
    world.open("b")
    assert world.state("b") == "queued"
    world.call("advance_session", **world.step("a", "running"))
    assert world.changes["n:n1 strikes"] == "0"
    assert world.changes["n:n1 judged"] == "ok"
    assert world.state("b") == "assigned n1"


def test_the_session_limit_runs_on_after_a_return(world: World) -> None:
    """Paused from the moment it was last served until it runs again: nothing of it is lost."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(600)
    world.call_once("give_back", **world.giving("a", "node_shutdown"))
    assert world.changes["s:a left"] == "1200000"
    assert not world.session("a").expires_at_s
    world.pass_time(3600)
    world.beat()
    assert world.state("a") == "assigned n1"
    assert world.session("a").expires_at_s == world.now_ms / 1000 + 1200
    world.lives["n1"].residents.clear()
    world.accept("a")
    world.run("advance_session", **world.step("a", "starting_pipeline"))
    world.call("advance_session", **world.step("a", "running"))
    assert world.fact(f"s:{sid('a')}", "left") == ""
    assert world.changes["s:a t_session"] == str(world.registry_ms + 1_200_000)


def test_the_node_s_own_wish_to_end_drains(world: World) -> None:
    """A natural end or a stop from the room: the slot stays taken until `end`."""
    world.add_node()
    world.bring("a", "running")
    drained = world.step("a", "draining", reason="completed")
    assert world.call_once("advance_session", **drained) == ("moved", ["draining"])
    assert world.changes == {
        "s:a state": "draining",
        "s:a reason": "completed",
        "s:a t_session": None,
        "s:a t_draining": str(T + 30_000),
        "dl a": str(T + 30_000),
        "s:a ver": str(T + 5),
        "ctr version": str(T + 5),
        "ev 7": "draining a n1 completed",
    }
    assert world.slots() == ["a"]
    assert world.call("advance_session", **drained) == ("stop", ["completed"])
    assert world.changes == {}


@pytest.mark.parametrize("target", ["joining_room", "starting_pipeline", "running", "draining"])
def test_a_draining_session_never_goes_back(world: World, target: str) -> None:
    """R8: whatever the node wanted, it is told to stop, and why."""
    world.add_node()
    world.bring("a", "joining_room")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    moved = world.step("a", target, reason="completed")
    assert world.call("advance_session", **moved) == ("stop", ["client_stop"])
    assert world.changes == {}


@pytest.mark.parametrize("target", ["queued", "starting_pipeline", "running", "closed", "failed"])
def test_a_node_can_t_skip_a_step(world: World, target: str) -> None:
    """The table of states decides; return and end have scripts of their own."""
    world.add_node()
    world.open("a")
    assert world.call("advance_session", **world.step("a", target)) == ("illegal", ["assigned"])
    assert world.changes == {}


@pytest.mark.parametrize("target", ["queued", "assigned", "joining_room", "closed", "failed"])
def test_a_running_session_takes_no_other_way_out(world: World, target: str) -> None:
    """Even where the table knows the move, it isn't this script's."""
    world.add_node()
    world.bring("a", "running")
    assert world.call("advance_session", **world.step("a", target)) == ("illegal", ["running"])
    assert world.changes == {}


def test_draining_needs_a_known_reason(world: World) -> None:
    """Without one nobody could say how the session ended."""
    world.add_node()
    world.bring("a", "running")
    moved = world.step("a", "draining", reason="")
    assert world.call("advance_session", **moved) == ("illegal", ["running"])
    assert world.changes == {}


def test_a_late_copy_of_an_earlier_step_changes_nothing(world: World) -> None:
    """The session is further along by now."""
    world.add_node()
    world.bring("a", "joining_room")
    late = world.step("a", "joining_room", stamp=9)
    world.bring("a", "joining_room")
    world.run("advance_session", **world.step("a", "starting_pipeline"))
    assert world.call("advance_session", **late) == ("illegal", ["starting_pipeline"])
    assert world.changes == {}


@pytest.mark.parametrize(
    "other", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}, {"session_id": sid("x")}]
)
def test_anybody_but_the_owner_is_fenced(world: World, other: dict[str, str]) -> None:
    """Node, incarnation and epoch are compared by equality."""
    world.add_node()
    world.open("a")
    wrong = {**world.step("a", "joining_room"), **other}
    assert world.call("advance_session", **wrong) == ("fenced", [])
    assert world.changes == {}


def test_a_session_that_went_elsewhere_is_fenced(world: World) -> None:
    """A node wakes after its death was declared and wants to go on."""
    world.add_node()
    world.bring("a", "joining_room")
    late = world.step("a", "starting_pipeline")
    world.kill("n1")
    assert world.call("advance_session", **late) == ("fenced", [])
    assert world.changes == {}


def test_an_ended_session_is_fenced(world: World) -> None:
    """Ended is absorbing: only local cleanup is left."""
    world.add_node()
    world.bring("a", "running")
    late = world.step("a", "draining", reason="completed")
    world.run("end_session", **world.owner("a"), reason="service_error", error="boom")
    assert world.call("advance_session", **late) == ("fenced", [])
    assert world.changes == {}
