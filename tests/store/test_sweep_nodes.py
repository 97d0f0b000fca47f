"""sweep_nodes: silent nodes are declared dead, and their sessions return to the line."""

from __future__ import annotations

from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = START_MS


def test_nobody_dies_early(world: World) -> None:
    """One millisecond before the lease ends, it holds."""
    world.add_node()
    world.pass_time(9.999)
    assert world.call("sweep_nodes", budget=64) == ("done", [[], [], []])
    assert {fact for fact in world.changes if not fact.startswith("ctr deaths")} == set()


def test_a_dead_node_s_session_is_first_in_line_again(world: World) -> None:
    """All that a death writes: old ticket, new epoch, two counts for the only session."""
    world.add_node()
    world.bring("a", "running")
    world.open("b")
    ticket = str(world.session("a").ticket)
    world.pass_time(10)
    now, deadline = str(T + 10_000), str(T + 70_000)
    returned = [[sid("a"), now, "node_died"]]
    assert world.call("sweep_nodes", budget=64) == ("done", [["n1"], returned, []])
    assert world.changes == {
        **_N1_DIED,
        "ns:n1 a": None,
        "q a": ticket,
        "s:a state": "queued",
        "s:a node": "",
        "s:a avoid": "n1",
        "s:a epoch": now,
        "s:a attempt": "2",
        "s:a counts": f"{int(now) // 1000}:2",
        "s:a mates": f"n1@{T}",
        "s:a back": "node_died",
        "s:a queued_rt": now,
        "s:a left": "1800000",
        "s:a acked": None,
        "s:a t_session": None,
        "s:a t_queued": deadline,
        "dl a": deadline,
        "s:a updated": now,
        "s:a ver": now,
        "ctr deaths": "1",
        "ctr deaths_from": now,
        "ctr epoch": now,
        "ctr version": now,
        "ctr n_nodes_died": "1",
        "ctr n_returned_node_died": "1",
        "ev 8": "returned a n1 node_died",
        "ev 9": "node_died n1",
    }
    assert world.line() == "ab"


_N1_DIED = {
    "nodes n1": None,
    "n:n1 state": "dead",
    "n:n1 strikes": "1",
    "n:n1 struck": f"{T // 1000 + 10}:1",
    "n:n1 rest": str(T + 15_000),
    "n:n1 ttl": "86400",
}


def test_they_step_onto_another_node_in_the_same_step(world: World) -> None:
    """In the order of their tickets."""
    world.add_node("n1", capacity=2)
    world.open("a", "b")
    world.accept("a")
    world.accept("b")
    world.pass_time(10)
    world.add_node("n2")
    word, (dead, returned, _) = world.call("sweep_nodes", budget=64)
    assert (word, dead) == ("done", ["n1"])
    assert [back.session_id for back in replies.returns(returned)] == [sid("a"), sid("b")]
    assert (world.state("a"), world.line()) == ("assigned n2", "b")


def test_the_time_without_service_is_not_the_session_s(world: World) -> None:
    """Its limit stops at the last beat of the node that died, not at its declared death."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(100)
    world.beat()
    world.kill("n1")
    assert world.fact(f"s:{sid('a')}", "left") == "1700000"


def test_no_session_gains_time_by_a_death(world: World) -> None:
    """It was admitted after the node's last beat: its whole limit is left, not more."""
    world.add_node()
    world.pass_time(5)
    world.open("a")
    world.accept("a")
    world.pass_time(5)
    world.run("sweep_nodes", budget=64)
    assert world.fact(f"s:{sid('a')}", "left") == "1800000"


def test_a_session_that_was_never_accepted_costs_nothing(world: World) -> None:
    """It can't have killed the node, and the one beside it was alone in the process."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.open("b")
    world.kill("n1")
    assert [world.count(letter) for letter in "ab"] == [2, 0]


def test_mates_count_one_and_the_only_starter_two(world: World) -> None:
    """Whoever was starting when the process died is the suspect."""
    world.add_node(capacity=3)
    world.bring("a", "running")
    world.bring("b", "starting_pipeline")
    world.bring("c", "running")
    world.kill("n1")
    assert [world.count(letter) for letter in "abc"] == [1, 2, 1]


def test_three_deaths_alone_end_a_session(world: World) -> None:
    """A poison session takes three processes down, not the fleet."""
    for name in ("n1", "n2", "n3"):
        world.add_node(name)
        world.bring("a", "running")
        world.pass_time(10)
        _, (_, returned, ended) = world.run("sweep_nodes", budget=64)
    assert (returned, ended) == ([], [[sid("a"), "recovery_limit", "node_died"]])
    assert world.session("a").reason == "recovery_limit"


def test_a_draining_session_ends_with_its_node(world: World) -> None:
    """With the stored reason; its slot is gone with the process."""
    world.add_node()
    world.bring("a", "running")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.pass_time(10)
    ended = [[sid("a"), "client_stop", "node_died"]]
    assert world.call("sweep_nodes", budget=64) == ("done", [["n1"], [], ended])


def test_an_evacuation_in_parts_goes_on_where_it_stopped(world: World) -> None:
    """The node leaves with its last session; each counts as one of the mates that they were."""
    world.add_node(capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.pass_time(10)
    world.add_node("n2")
    for letters in ("a", "ab"):
        word, (dead, _, _) = world.call_once("sweep_nodes", budget=1)
        assert (word, dead, world.line()) == ("more", [], letters)
    word, (dead, _, _) = world.call("sweep_nodes", budget=1)
    assert (word, dead) == ("done", ["n1"])
    assert (world.state("a"), world.line()) == ("assigned n2", "bc")
    assert [world.count(letter) for letter in "abc"] == [1, 1, 1]


def test_at_most_two_of_a_small_fleet_die_in_one_second(world: World) -> None:
    """A fault of the judge's would cost two nodes, not all (R13)."""
    for number in range(5):
        world.add_node(f"n{number}")
    world.pass_time(10)
    deaths = []
    for _ in range(4):
        word, (dead, _, _) = world.call("sweep_nodes", budget=64)
        assert word == "done"
        deaths.append(len(replies.fields(dead)))
        world.pass_time(0.5)
    assert deaths == [2, 0, 2, 0]


def test_a_tenth_of_a_large_fleet_may_die_in_one_second(world: World) -> None:
    """Fifty nodes lose a rack of five at once."""
    for number in range(50):
        world.add_node(f"n{number}")
    world.pass_time(10)
    _, (dead, _, _) = world.call("sweep_nodes", budget=64)
    assert len(replies.fields(dead)) == 5


def test_three_strikes_make_a_node_suspect(world: World) -> None:
    """It rests longer each time; thirty seconds after the third it is tried again."""
    world.add_node(ttl_ms=600_000)
    rests = []
    for letter in "abc":
        world.bring(letter, "joining_room")
        world.run("give_back", **world.giving(letter, "join_failed", capacity=1))
        world.run("cancel_session", session_id=sid(letter), reason="client_stop")
        world.lives["n1"].residents.clear()
        rests.append(int(world.fact("n:n1", "rest")) - world.registry_ms)
        world.pass_time(30)
        world.beat()
    assert rests == [5_000, 10_000, 30_000]
    assert world.fact("n:n1", "judged") == "suspect"
    assert world.free() == ["n1"]
