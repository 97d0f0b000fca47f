"""register_node: a life of a node begins (R11)."""

from __future__ import annotations

from tests.support.scenario import START_MS, World, listed, sid

T = START_MS


def test_a_life_begins(world: World) -> None:
    """Everything that is written for a node, with a lease of its own length."""
    assert world.call("register_node", **world.registration("n1", profile='{"pid":7}')) == (
        "registered",
        [str(T), []],
    )
    assert world.changes == {
        "n:n1 boot": "boot-of-n1",
        "n:n1 inc": str(T),
        "n:n1 state": "idle",
        "n:n1 capacity": "1",
        "n:n1 draining": "0",
        "n:n1 media_ok": "1",
        "n:n1 profile": '{"pid":7}',
        "n:n1 start_ms": "0",
        "n:n1 session_capacity": "null",
        "n:n1 options": "{}",
        "n:n1 stamp": "0",
        "n:n1 ttl": "10000",
        "n:n1 beat": str(T),
        "n:n1 registered": str(T),
        "n:n1 strikes": "0",
        "n:n1 rest": "0",
        "n:n1 judged": "ok",
        "n:n1 gen": "1",
        "n:n1 strangers": "0",
        "nodes n1": str(T + 10_000),
        "free n1": "0",
        "ctr rt": str(T),
        "ctr rt_wall": str(T),
        "ctr inc": str(T),
        "ctr ttl": "10000",
        "ctr schema": "1",
        "ev 1": "node_registered n1",
    }


def test_a_node_that_still_loads_is_given_nothing(world: World) -> None:
    """It has a lease and no place in `free`."""
    world.open("a")
    world.call("register_node", **world.registration("n1", state="loading"))
    assert "nodes n1" in world.changes
    assert world.free() == []


def test_those_who_wait_are_served_at_once(world: World) -> None:
    """Registering dispatches; whoever is left keeps waiting."""
    world.open("a", "b", "c")
    world.call("register_node", **world.registration("n1", capacity=2))
    assert (world.slots(), world.line()) == (["a", "b"], "c")


def test_the_same_boot_answers_the_same(world: World) -> None:
    """The reply was lost: no second life, and the residents that it names are told as kept."""
    life = world.add_node(capacity=2)
    world.bring("a", "running")
    again = world.registration("n1", residents=listed(("a", world.epoch("a")), ("b", 5)))
    kept = [[sid("a"), str(world.epoch("a"))]]
    assert world.call("register_node", **again) == ("registered", [str(life.incarnation), kept])
    assert world.changes == {}


def test_a_fresh_process_waits_for_the_old_lease(world: World) -> None:
    """Two processes with one node id: the younger waits, the older one isn't disturbed."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(4)
    second = world.registration("n1", boot_id="boot-2")
    assert world.call("register_node", **second) == ("wait", ["6000"])
    assert world.changes == {}
    assert world.state("a") == "running n1"


def test_it_waits_until_the_death_is_counted(world: World) -> None:
    """The lease is over but no sweep has returned the sessions: their deaths must count (R4)."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(11)
    second = world.registration("n1", boot_id="boot-2")
    assert world.call("register_node", **second) == ("wait", ["100"])
    world.run("sweep_nodes", budget=64)
    assert world.call("register_node", **second)[0] == "registered"
    assert (world.state("a"), world.count("a")) == ("assigned n1", 2)


def test_it_waits_until_the_last_session_has_left(world: World) -> None:
    """An evacuation in parts: neither the dead life nor the next one comes in between."""
    life = world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    world.pass_time(10)
    assert world.run("sweep_nodes", budget=1)[0] == "more"
    second = world.registration("n1", boot_id="boot-2", capacity=2)
    assert world.call("register_node", **second) == ("wait", ["100"])
    assert world.call("register_node", **world.registration("n1", capacity=2))[0] == "wait"
    same = world.registration("n1", boot_id="boot-3", previous=life.incarnation)
    assert world.call("register_node", **same)[0] == "wait"
    assert world.run("sweep_nodes", budget=1)[0] == "done"
    assert world.call("register_node", **second)[0] == "registered"
    assert world.slots() == ["a", "b"]


def test_after_a_goodbye_nobody_waits(world: World) -> None:
    """A retired node has no lease left; its incarnation is still lower than the next one."""
    life = world.add_node()
    world.run("retire_node", node_id="n1", incarnation=life.incarnation)
    word, (incarnation, _) = world.call(
        "register_node", **world.registration("n1", boot_id="boot-2")
    )
    assert word == "registered"
    assert int(str(incarnation)) > life.incarnation
    assert world.changes["n:n1 ttl"] == "10000"
    assert world.raw.ttl(f"{world.prefix}n:n1") == -1


def test_a_replaced_life_is_told_to_exit(world: World) -> None:
    """It slept through its death and names an incarnation that a living one has replaced."""
    life = world.add_node()
    world.kill("n1")
    world.add_node("n1", boot_id="boot-2")
    old = world.registration("n1", boot_id="boot-3", previous=life.incarnation)
    assert world.call("register_node", **old) == ("superseded", [])
    assert world.changes == {}


def test_a_late_copy_of_an_earlier_call_replaces_nobody(world: World) -> None:
    """It comes after that life's death and begins one; the process itself goes on all the same."""
    first = world.add_node("n1", boot_id="p.1")
    world.kill("n1")
    copy = world.add_node("n1", boot_id="p.1")
    assert copy.incarnation > first.incarnation
    again = world.add_node("n1", boot_id="p.2", previous=first.incarnation)
    assert again.incarnation > copy.incarnation


def test_a_late_copy_doesn_t_replace_a_later_life_of_its_process(world: World) -> None:
    """While that one lives it changes nothing."""
    first = world.add_node("n1", boot_id="p.9")
    world.add_node("n1", boot_id="p.10", previous=first.incarnation)
    copy = world.registration("n1", boot_id="p.9")
    assert world.call("register_node", **copy)[0] == "wait"
    assert world.changes.keys() <= {"ctr rt", "ctr rt_wall"}
    copy = world.registration("n1", boot_id="p.9", previous=first.incarnation - 1)
    assert world.call("register_node", **copy) == ("superseded", [])


def test_another_process_is_no_later_life_whatever_it_is_called(world: World) -> None:
    """Only the same name before the number counts, and a number there must be."""
    first = world.add_node("n1", boot_id="p.1")
    second = world.add_node("n1", boot_id="p.2", previous=first.incarnation)
    for boot in ("q.9", "p", "p.", "9", "p.x"):
        stranger = world.registration("n1", boot_id=boot, previous=first.incarnation)
        assert world.call("register_node", **stranger) == ("superseded", [])
    assert world.changes == {}
    assert second.incarnation > first.incarnation


def test_a_life_whose_successor_is_gone_may_come_back(world: World) -> None:
    """The one that replaced it said goodbye: nobody is in the way."""
    life = world.add_node()
    world.kill("n1")
    second = world.add_node("n1", boot_id="boot-2")
    world.run("retire_node", node_id="n1", incarnation=second.incarnation)
    old = world.registration("n1", boot_id="boot-3", previous=life.incarnation)
    assert world.call("register_node", **old)[0] == "registered"


def test_the_same_process_keeps_equal_epochs(world: World) -> None:
    """It registers anew while its lease runs: what both sides agree on stays, the rest returns."""
    life = world.add_node(capacity=3)
    for letter in "abc":
        world.bring(letter, "running")
    kept = [[sid("a"), str(world.epoch("a"))]]
    residents = listed(("a", world.epoch("a")), ("b", 1))
    anew = world.registration(
        "n1", boot_id="boot-2", previous=life.incarnation, residents=residents, state="error"
    )
    word, (incarnation, told) = world.call("register_node", **anew)
    assert (word, told) == ("registered", kept)
    assert int(str(incarnation)) > life.incarnation
    assert (world.state("a"), world.line()) == ("running n1", "bc")
    assert [world.count(letter) for letter in "bc"] == [0, 0]


def test_a_life_that_the_registry_forgot_is_let_in(world: World) -> None:
    """The registry lost its last writes: the node's incarnation is above the record's.

    It is a newer life of the same node, so it waits for nobody, keeps what both sides agree on
    and gets a number above the one that it had.
    """
    world.add_node()
    world.bring("a", "running")
    newer = world.registration(
        "n1", boot_id="boot-2", previous=T + 500, residents=listed(("a", world.epoch("a")))
    )
    kept = [[sid("a"), str(world.epoch("a"))]]
    assert world.call("register_node", **newer) == ("registered", [str(T + 501), kept])


def test_a_new_life_empties_the_quarantine(world: World) -> None:
    """A fresh process holds nothing of the old one; the same process still holds what it lists."""
    life = world.add_node(capacity=2)
    world.bring("a", "starting_pipeline", d_starting=1_000)
    world.bring("b", "starting_pipeline", d_starting=1_000)
    world.beat()
    epoch = world.epoch("a")
    world.raw.hset(f"{world.prefix}n:n1", "capacity", 0)
    world.pass_time(1)
    world.run("sweep_deadlines", budget=64)
    assert (world.slots(), world.line()) == (["!a", "!b"], "ab")
    anew = world.registration(
        "n1",
        boot_id="boot-2",
        previous=life.incarnation,
        residents=listed(("a", epoch)),
        capacity=0,
    )
    assert world.call("register_node", **anew)[0] == "registered"
    assert world.slots() == ["!a"]
    world.pass_time(10)
    world.run("sweep_nodes", budget=64)
    assert world.slots() == []
    world.call("register_node", **world.registration("n1", boot_id="boot-3"))
    assert world.slots() == ["a"]


def test_a_fresh_process_is_clear_of_strikes(world: World) -> None:
    """Whatever made the old process fail is gone with it."""
    world.add_node()
    world.kill("n1")
    assert world.fact("n:n1", "strikes") == "1"
    world.call("register_node", **world.registration("n1", boot_id="boot-2"))
    assert world.changes["n:n1 strikes"] == "0"
    assert world.free() == ["n1"]


def test_incarnations_rise_even_if_the_clock_steps_back(world: World) -> None:
    """An hour earlier by the wall clock, yet the later life has the higher number."""
    first = world.add_node()
    world.run("retire_node", node_id="n1", incarnation=first.incarnation)
    world.step_clock(-3600)
    assert world.add_node("n1", boot_id="boot-2").incarnation > first.incarnation
