"""What failures and deaths cost sessions and nodes (R4): neither takes all others down."""

from __future__ import annotations

import pytest

from tests.support.scenario import World


def give_back(world: World, letter: str, why: str, *, capacity: int = 1) -> str:
    """Return a session to the line by its node; the reply's word."""
    return world.run("give_back", **world.giving(letter, why, capacity=capacity))[0]


def fail_to_join(world: World, letter: str) -> str:
    """Let the session's node try and fail."""
    world.accept(letter)
    return give_back(world, letter, "join_failed")


def rest(world: World, *node_ids: str) -> None:
    """Let the longest rest pass, with beats all the while."""
    for _ in range(15):
        world.pass_time(2)
        for node_id in node_ids:
            world.beat(node_id)


# What it costs the session.


def test_counts_slide_out_of_the_window_one_by_one(world: World) -> None:
    """Within any ten minutes it failed at most twice, so it goes on."""
    for name in ("n1", "n2", "n3"):
        world.add_node(name)
        world.bring("a", "joining_room", d_queued=0)
        assert give_back(world, "a", "join_failed") == "returned"
        world.pass_time(350)
    assert world.count("a") == 4


def test_one_bad_node_ends_no_session(world: World) -> None:
    """Its failures count once, however often the line has no other place for the session."""
    world.add_node("n2")
    world.bring("b", "running")
    world.add_node("n1")
    world.open("a", d_queued=0)
    for _ in range(5):
        assert world.state("a") == "assigned n1"
        assert fail_to_join(world, "a") == "returned"
        rest(world, "n1", "n2")
    assert (world.count("a"), world.session("a").attempt) == (2, 6)


def test_where_every_node_has_failed_it_each_failure_counts(world: World) -> None:
    """Else a session that can't start would go round in a small pool for ever."""
    world.add_node("n1")
    world.open("a", d_queued=0)
    words = []
    for _ in range(3):
        words.append(fail_to_join(world, "a"))
        rest(world, "n1")
    assert words == ["returned", "returned", "ended"]
    assert world.session("a").reason == "join_timeout"


def test_a_node_that_takes_nobody_is_none_to_try(world: World) -> None:
    """It loads, or is closed: waiting for it would be going round as well."""
    world.add_node("n1")
    world.add_node("n2", state="error")
    world.open("a", d_queued=0)
    words = []
    for _ in range(3):
        words.append(fail_to_join(world, "a"))
        rest(world, "n1")
    assert words[-1] == "ended"


@pytest.mark.parametrize(
    ("state", "limit_s", "reason"),
    [
        ("assigned", 7, "join_timeout"),
        ("joining_room", 15, "join_timeout"),
        ("starting_pipeline", 120, "start_timeout"),
    ],
)
def test_the_last_cause_names_the_end(world: World, state: str, limit_s: int, reason: str) -> None:
    """Two nodes couldn't be joined, the third one never accepts, joins or starts it."""
    for name in ("n1", "n2"):
        world.add_node(name)
        world.bring("a", "joining_room", d_queued=0)
        give_back(world, "a", "join_failed", capacity=0)
    life = world.add_node("n3")
    if state != "assigned":
        world.bring("a", state)
    for _ in range(limit_s // 2 + 1):
        world.pass_time(2)
        world.beat("n3")
        world.run("sweep_deadlines", budget=64)
    assert life.node_id == "n3"
    assert (world.state("a"), world.session("a").reason) == ("failed n3", reason)


# Where it goes next.


def test_it_goes_rather_where_it_hasn_t_failed(world: World) -> None:
    """Not only the last node is remembered: two have failed it, the third one is taken."""
    for name in ("n1", "n2"):
        world.add_node(name)
        world.bring("a", "joining_room", d_queued=0)
        give_back(world, "a", "join_failed")
    world.add_node("n3", capacity=4, state="loading")
    hold_until_all_may_serve(world, "n1", "n2", "n3")
    assert world.state("a") == "assigned n3"


def hold_until_all_may_serve(world: World, *node_ids: str) -> None:
    """Let a restart hold dispatch until every node has room at the same time."""
    world.pass_time(10)
    world.restart()
    for _ in range(3):
        for node_id in node_ids:
            world.beat(node_id)
        world.pass_time(2)
    world.run("sweep_deadlines", budget=64)


def test_mates_of_a_death_are_spread(world: World) -> None:
    """One of them may have caused it: the next death shall not take the others along again."""
    world.add_node("n1", capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.add_node("n2", capacity=4)
    world.add_node("n3", capacity=4)
    world.add_node("n4", capacity=1)
    for _ in range(5):
        world.pass_time(2)
        for name in ("n2", "n3", "n4"):
            world.beat(name)
    world.run("sweep_nodes", budget=64)
    assert sorted(world.state(letter) for letter in "abc") == [
        "assigned n2",
        "assigned n3",
        "assigned n4",
    ]


def test_a_mate_weighs_more_than_load(world: World) -> None:
    """The fuller node is taken, since the emptier one has just been given a mate."""
    world.add_node("n1", capacity=2)
    for letter in "ab":
        world.bring(letter, "running")
    world.add_node("n3", capacity=2)
    world.bring("x", "running")
    world.add_node("n2", capacity=4)
    for _ in range(5):
        world.pass_time(2)
        for name in ("n2", "n3"):
            world.beat(name)
    world.run("sweep_nodes", budget=64)
    assert [world.state(letter) for letter in "abx"] == ["assigned n2", "assigned n3", "running n3"]


def test_without_room_elsewhere_mates_meet_again(world: World) -> None:
    """Nobody waits for a better place while there is one."""
    world.add_node("n1", capacity=2)
    for letter in "ab":
        world.bring(letter, "running")
    world.add_node("n2", capacity=2)
    for _ in range(5):
        world.pass_time(2)
        world.beat("n2")
    world.run("sweep_nodes", budget=64)
    assert world.slots("n2") == ["a", "b"]


def test_a_mate_is_a_better_neighbour_than_the_place_of_the_accident(world: World) -> None:
    """The process that died is back and empty; still the other node is taken first."""
    world.add_node("n1", capacity=2)
    for letter in "ab":
        world.bring(letter, "running")
    world.beat("n1", capacity=0)
    for letter in "ab":
        give_back(world, letter, "service_lost", capacity=0)
    world.add_node("n2", capacity=2)
    rest(world, "n1", "n2")
    assert world.slots("n2") == ["a", "b"]


# What it costs the node.


def test_a_death_of_the_service_is_one_strike(world: World) -> None:
    """However many sessions are given back for it."""
    world.add_node(capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    world.beat(capacity=0)
    for letter in "abc":
        give_back(world, letter, "service_lost", capacity=0)
    assert (world.fact("n:n1", "strikes"), world.fact("n:n1", "judged")) == ("1", "ok")


def test_a_session_lost_alone_is_no_strike(world: World) -> None:
    """The process lives: the session's own world fell apart."""
    world.add_node(capacity=2)
    for letter in "ab":
        world.bring(letter, "running")
    give_back(world, "a", "service_lost", capacity=2)
    assert world.fact("n:n1", "strikes") == "0"


def test_strikes_slide_out_of_the_window_one_by_one(world: World) -> None:
    """Two within any ten minutes make nobody suspect."""
    world.add_node("n1")
    for letter in "abc":
        world.open(letter, d_queued=0)
        fail_to_join(world, letter)
        world.run("cancel_session", session_id=f"default-{letter * 26}", reason="client_stop")
        world.pass_time(350)
        world.beat("n1")
    assert (world.fact("n:n1", "strikes"), world.fact("n:n1", "judged")) == ("2", "ok")


def test_a_suspect_is_tried_again_and_cleared_by_success(world: World) -> None:
    """30 s after its last strike the line may try it; a session that runs there clears it."""
    world.add_node("n1")
    for letter in "abc":
        world.open(letter, d_queued=0)
        assert world.state(letter) == "assigned n1"
        fail_to_join(world, letter)
        world.run("cancel_session", session_id=f"default-{letter * 26}", reason="client_stop")
        if letter != "c":
            rest(world, "n1")
    assert world.fact("n:n1", "judged") == "suspect"
    world.open("d")
    world.pass_time(29)
    world.beat("n1")
    assert world.state("d") == "queued"
    world.pass_time(1)
    world.beat("n1")
    world.bring("d", "running")
    assert (world.fact("n:n1", "judged"), world.fact("n:n1", "struck")) == ("ok", "")
