"""rebase_epoch: a session gets an epoch above one that the registry has lost."""

from __future__ import annotations

import pytest

from tests.support.scenario import World, listed, sid


def rebased(world: World, seen: int) -> tuple[int, int]:
    """Let a running session's node meet a worker of epoch *seen*; its epoch before and after."""
    before = world.epoch("a")
    word, (epoch,) = world.call("rebase_epoch", **world.owner("a"), seen=seen)
    assert (word, epoch) == ("rebased", str(world.epoch("a")))
    return before, world.epoch("a")


def test_the_session_goes_on_above_what_was_seen(world: World) -> None:
    """Record, slot and counter; nothing else of it changes."""
    world.add_node()
    world.bring("a", "running")
    seen = world.now_ms + 3_600_000
    owner = world.owner("a")
    assert world.call_once("rebase_epoch", **owner, seen=seen)[0] == "rebased"
    assert {f: v for f, v in world.changes.items() if not f.startswith(("ev", "ctr ver"))} == {
        "ctr epoch": str(seen + 1),
        "ctr n_rebased": "1",
        "ns:n1 a": str(seen + 1),
        "s:a epoch": str(seen + 1),
        "s:a rebased": str(owner["epoch"]),
        "s:a ver": world.fact(f"s:{sid('a')}", "ver"),
    }
    world.open("b")
    world.add_node("n2")
    assert world.epoch("b") > seen + 1


def test_the_node_may_ask_again_with_the_epoch_that_it_knows(world: World) -> None:
    """The answer was lost: the same answer, no second number."""
    world.add_node()
    world.bring("a", "running")
    asked = {**world.owner("a"), "seen": world.now_ms + 9_000}
    first = world.run("rebase_epoch", **asked)
    assert world.call("rebase_epoch", **asked) == first
    assert world.changes == {}


def test_a_beat_of_the_epoch_before_is_still_its_own(world: World) -> None:
    """It was on its way, or the answer is: neither a leftover nor a loss."""
    life = world.add_node()
    world.bring("a", "running")
    world.beat()
    old, new = rebased(world, world.now_ms + 9_000)
    assert life.residents == {"a": old}
    for _ in range(3):
        assert world.beat() == ("ok", [[[sid("a"), str(new)]], [], [], []])
    life.residents["a"] = new
    assert world.beat() == ("ok", [[[sid("a"), str(new)]], [], [], []])
    life.residents.clear()
    world.beat()
    assert world.session("a").returned_because == "node_lost_it"


def test_a_session_that_ended_is_refused_under_the_epoch_that_the_node_knows(world: World) -> None:
    """The answer to the rebase was lost; a kill under another epoch would mean nothing to it."""
    life = world.add_node()
    world.bring("a", "running")
    world.beat()
    old, new = rebased(world, world.now_ms + 9_000)
    world.run("end_session", **{**world.owner("a"), "epoch": new}, reason="completed", error="")
    assert life.residents == {"a": old}
    assert world.beat() == ("ok", [[], [], [[sid("a"), str(old), "fenced"]], []])


def test_a_life_that_begins_meanwhile_keeps_it(world: World) -> None:
    """The registration names it as the node knows it."""
    life = world.add_node()
    world.bring("a", "running")
    old, new = rebased(world, world.now_ms + 9_000)
    held = listed(("a", old))
    again = world.registration("n1", boot_id="2", previous=life.incarnation, residents=held)
    word, (_, kept) = world.run("register_node", **again)
    assert (word, kept) == ("registered", [[sid("a"), str(new)]])


def test_after_a_return_the_epoch_before_means_nothing(world: World) -> None:
    """The same node has it again: what it lists under the old number are leftovers."""
    life = world.add_node()
    world.bring("a", "running")
    old, _ = rebased(world, world.now_ms + 9_000)
    world.run("give_back", **world.giving("a", "node_shutdown", capacity=1))
    assert world.state("a") == "assigned n1"
    life.residents["a"] = old
    epoch = [sid("a"), str(world.epoch("a"))]
    assert world.beat() == ("ok", [[epoch], [epoch], [[sid("a"), str(old), "fenced"]], []])


def test_what_is_above_already_stays(world: World) -> None:
    """The worker that it met was an older one."""
    world.add_node()
    world.bring("a", "running")
    epoch = str(world.epoch("a"))
    asked = {**world.owner("a"), "seen": world.epoch("a") - 1}
    assert world.call("rebase_epoch", **asked) == ("rebased", [epoch])
    assert world.changes == {}


def test_in_a_grace_it_has_to_wait(world: World) -> None:
    """The node with the higher epoch may have it by right, and hasn't beaten yet."""
    world.add_node()
    world.bring("a", "running")
    world.restart()
    world.run("sweep_nodes", budget=64)
    asked = {**world.owner("a"), "seen": world.now_ms + 9_000}
    assert world.call("rebase_epoch", **asked) == ("wait", [])
    assert world.changes == {}
    world.pass_time(10)
    assert world.run("rebase_epoch", **asked)[0] == "rebased"


def test_it_waits_as_well_if_it_is_the_first_call_of_all(world: World) -> None:
    """A server that was restarted is noticed by this call, and the grace begins with it."""
    world.add_node()
    world.bring("a", "running")
    world.restart()
    asked = {**world.owner("a"), "seen": world.now_ms + 9_000}
    assert world.call_once("rebase_epoch", **asked) == ("wait", [])
    assert world.fact("ctr", "gen") == "2"


@pytest.mark.parametrize(
    "other", [{"node_id": "n2"}, {"incarnation": 1}, {"epoch": 1}, {"session_id": sid("x")}]
)
def test_anybody_but_the_owner_is_fenced(world: World, other: dict[str, str]) -> None:
    """Node, incarnation and epoch are compared by equality."""
    world.add_node()
    world.bring("a", "running")
    asked = {**world.owner("a"), "seen": world.now_ms + 9_000, **other}
    assert world.call("rebase_epoch", **asked) == ("fenced", [])
    assert world.changes == {}


def test_an_ended_session_is_fenced(world: World) -> None:
    """It holds no slot."""
    world.add_node()
    world.bring("a", "running")
    asked = {**world.owner("a"), "seen": world.now_ms + 9_000}
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.call("rebase_epoch", **asked) == ("fenced", [])
    assert world.changes == {}
