"""adopt_session: a node brings back what the registry lost, or knows only from an earlier time."""

from __future__ import annotations

from typing import cast

import pytest

from shared.store.scripts import Argument
from tests.support.key_dump import dump
from tests.support.scenario import World, listed, sid


def lose_all(world: World) -> None:
    """Empty the server; the node comes back with a new life, as its beat is told to."""
    life = world.lives["n1"]
    residents = listed(*life.residents.items())
    world.raw.flushall()
    told = world.registration("n1", previous=life.incarnation, residents=residents, capacity=2)
    word, (incarnation, kept) = world.run("register_node", **told)
    assert (word, kept) == ("registered", [])
    life.incarnation = int(str(incarnation))


def save(world: World) -> dict[str, bytes]:
    """Keep all keys of this instant."""
    names = cast("list[str]", world.raw.keys("*"))
    return {name: cast("bytes", world.raw.dump(name)) for name in names}


def lose_since(world: World, saved: dict[str, bytes]) -> None:
    """Bring the server back to an earlier instant, as a lost tail of its log does."""
    world.raw.flushall()
    for name, value in saved.items():
        world.raw.restore(name, 0, value)


# After a total loss.


def test_a_lost_session_comes_back_complete(world: World) -> None:
    """Every key that it had, under its old ticket and epoch; only its room is told anew."""
    world.add_node(capacity=2)
    image: dict[str, Argument] = {"session_id": sid("a"), "image": b"jpeg", "budget_bytes": 99}
    world.run("put_image", **image)
    world.bring("a", "running", idempotency_hash="ab", fingerprint="f", request='{"prompt":"sea"}')
    epoch, bundle, before = world.epoch("a"), world.bundle("a"), dump(world.raw)
    lose_all(world)
    world.run("put_image", **image)
    claim = world.claim("n1", "a", epoch, bundle)
    assert world.call("adopt_session", **claim) == ("adopted", [])
    after = dump(world.raw)
    of_session = [
        fact for fact in before if fact.split(maxsplit=1)[0].split(":")[-1] in ("a", "ab")
    ]
    lost = {fact: after.get(fact) for fact in of_session if after.get(fact) != before[fact]}
    assert lost == {
        "s:a assigned": None,
        "s:a assigned_rt": None,
        "s:a queued_rt": None,
        "s:a ver": after["s:a ver"],
    }
    assert (after["ctr image_bytes"], after["ctr ticket"]) == ("4", before["s:a ticket"])
    assert (world.slots(), world.fact("n:n1", "strangers")) == (["a"], "0")
    assert world.beat() == ("ok", [[[sid("a"), str(epoch)]], [], [], []])


def test_what_is_to_be_adopted_takes_its_slot_already(world: World) -> None:
    """Between the registration and the adoption nobody else is put onto the node."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    epochs = {letter: world.epoch(letter) for letter in "ab"}
    bundles = {letter: world.bundle(letter) for letter in "ab"}
    lose_all(world)
    world.open("c")
    assert (world.line(), world.free()) == ("c", [])
    told = [[sid("a"), str(epochs["a"])], [sid("b"), str(epochs["b"])]]
    assert world.beat() == ("ok", [[], [], [], told])
    assert (world.line(), world.free()) == ("c", [])
    for letter in "ab":
        world.run("adopt_session", **world.claim("n1", letter, epochs[letter], bundles[letter]))
        assert world.free() == []
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.state("c") == "assigned n1"


def test_what_has_run_of_the_limit_stays_used(world: World) -> None:
    """Left when the bundle was read, less what was played since."""
    world.add_node()
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle, age_ms=300_000))
    assert world.session("a").expires_at_s == world.now_ms / 1000 + 1500


def test_a_paused_limit_stays_paused_until_it_runs(world: World) -> None:
    """It had been returned once and was starting again when all was lost."""
    world.add_node()
    world.bring("a", "running")
    world.pass_time(600)
    world.run("give_back", **world.giving("a", "node_shutdown", capacity=1))
    world.beat()
    world.accept("a")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    claim = world.claim("n1", "a", epoch, bundle, state="joining_room", age_ms=5_000)
    world.call("adopt_session", **claim)
    assert world.fact(f"s:{sid('a')}", "left") == "1200000"
    assert world.fact(f"s:{sid('a')}", "t_joining") == str(world.registry_ms + 15_000)
    world.run("advance_session", **world.step("a", "starting_pipeline"))
    world.run("advance_session", **world.step("a", "running"))
    assert world.session("a").expires_at_s == world.now_ms / 1000 + 1200


def test_a_limit_that_was_paused_when_packed_runs_if_it_runs_here(world: World) -> None:
    """The bundle is from its acceptance; it began to run before the next one was read."""
    world.add_node()
    world.bring("a", "running")
    world.run("give_back", **world.giving("a", "node_shutdown", capacity=1))
    world.accept("a")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle))
    record = f"s:{sid('a')}"
    assert world.fact(record, "t_session") == str(world.registry_ms + 1_800_000)
    assert world.fact(record, "left") == ""


@pytest.mark.parametrize(
    ("state", "deadline", "limit_ms"),
    [("joining_room", "joining", 15_000), ("starting_pipeline", "starting", 120_000)],
)
def test_the_limit_of_its_step_begins_anew(
    world: World, state: str, deadline: str, limit_ms: int
) -> None:
    """As if the step had just begun: nobody knows when it did."""
    world.add_node()
    world.bring("a", state)
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle, state=state))
    record = f"s:{sid('a')}"
    assert world.fact(record, f"t_{deadline}") == str(world.registry_ms + limit_ms)


def test_presence_is_told_by_the_next_beat(world: World) -> None:
    """Nobody is missed before the node has said who is there."""
    life = world.add_node()
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle))
    assert world.fact(f"s:{sid('a')}", "t_controller") == ""
    life.residents.clear()
    world.beat(residents=listed(("a", epoch, 1, 0, 0, "running")))
    assert world.fact(f"s:{sid('a')}", "t_controller") == str(world.registry_ms + 60_000)


def test_a_client_that_asked_again_keeps_its_new_session(world: World) -> None:
    """Its idempotency key stands for that one; the old one plays on without it."""
    world.add_node(capacity=2)
    key = {"idempotency_hash": "ab", "fingerprint": "f"}
    world.bring("a", "running", **key)
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_all(world)
    world.open("b", **key)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle))
    assert world.raw.get(f"{world.prefix}idem:ab") == f"{sid('b')} f"
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.raw.ttl(f"{world.prefix}idem:ab") == -1


def test_numbers_that_were_seen_are_never_issued_again(world: World) -> None:
    """Even if the clock was set back meanwhile (R5)."""
    world.add_node()
    world.bring("a", "running")
    epoch, ticket, bundle = world.epoch("a"), world.session("a").ticket, world.bundle("a")
    world.step_clock(-3600)
    lose_all(world)
    world.run("adopt_session", **world.claim("n1", "a", epoch, bundle))
    world.open("b")
    assert world.session("b").ticket > ticket
    world.run("give_back", **world.giving("a", "node_shutdown", capacity=1))
    assert world.epoch("b") > epoch


# When the registry knows it from an earlier time.


def test_of_two_claimants_the_higher_epoch_wins(world: World) -> None:
    """The record is from before the session moved; the node that had it first is told to stop."""
    world.add_node("n1")
    world.add_node("n2")
    world.bring("a", "running")
    saved, old = save(world), world.epoch("a")
    world.run("give_back", **world.giving("a", "join_failed", capacity=1))
    world.lives["n1"].residents["a"] = old  # it never heard the answer
    world.bring("a", "running")
    assert world.state("a") == "running n2"
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_since(world, saved)
    world.restart()
    assert world.state("a") == "running n1"
    assert world.beat("n2") == ("ok", [[], [], [], [[sid("a"), str(epoch)]]])
    assert world.call("adopt_session", **world.claim("n2", "a", epoch, bundle)) == ("adopted", [])
    assert (world.state("a"), world.slots("n1"), world.slots("n2")) == ("running n2", [], ["a"])
    late = world.claim("n1", "a", old, bundle)
    assert world.call("adopt_session", **late) == ("fenced", [])
    assert world.beat("n1") == ("ok", [[], [], [[sid("a"), str(old), "fenced"]], []])


def test_a_record_that_waits_leaves_the_line(world: World) -> None:
    """Its assignment was lost; whoever plays it keeps it."""
    world.open("a")
    saved = save(world)
    world.add_node()
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_since(world, saved)
    life = world.lives["n1"]
    held = listed(*life.residents.items())
    again = world.registration("n1", previous=life.incarnation, residents=held)
    life.incarnation = int(str(world.run("register_node", **again)[1][0]))
    assert (world.line(), world.free()) == ("a", [])
    assert world.call("adopt_session", **world.claim("n1", "a", epoch, bundle)) == ("adopted", [])
    assert (world.line(), world.state("a")) == ("", "running n1")


def test_a_record_of_an_earlier_step_is_brought_forward(world: World) -> None:
    """Same node, same epoch; else a limit of a step long done would take it from its node."""
    world.add_node()
    world.open("a")
    saved = save(world)
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_since(world, saved)
    row = [sid("a"), str(epoch)]
    assert world.state("a") == "assigned n1"
    told = world.beat(residents=listed(("a", epoch, 1, 1, 1, "running")))
    assert told == ("ok", [[row], [], [], [row]])
    assert world.call("adopt_session", **world.claim("n1", "a", epoch, bundle)) == ("adopted", [])
    assert (world.state("a"), world.fact(f"s:{sid('a')}", "t_assigned")) == ("running n1", "")
    told = world.beat(residents=listed(("a", epoch, 1, 1, 1, "running")))
    assert told == ("ok", [[row], [], [], []])


def test_an_absence_from_before_the_loss_is_timed_anew(world: World) -> None:
    """The record knows it already, so the next beat would change nothing."""
    world.add_node()
    world.bring("a", "starting_pipeline")
    epoch = world.epoch("a")
    world.beat(residents=listed(("a", epoch, 1, 0, 0)))
    saved, bundle = save(world), world.bundle("a")
    lose_since(world, saved)
    world.call("adopt_session", **world.claim("n1", "a", epoch, bundle))
    world.beat(residents=listed(("a", epoch, 1, 0, 0, "running")))
    due = str(world.registry_ms + 60_000)
    assert world.fact(f"s:{sid('a')}", "t_controller") == due


def test_one_that_was_asked_to_end_meanwhile_still_ends(world: World) -> None:
    """Draining never goes back, whoever holds it: the new owner is told to stop."""
    world.add_node("n1")
    world.add_node("n2")
    world.bring("a", "running")
    saved = save(world)
    world.run("give_back", **world.giving("a", "join_failed", capacity=1))
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    lose_since(world, saved)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.call("adopt_session", **world.claim("n2", "a", epoch, bundle))
    assert world.state("a") == "draining n2"
    row = [sid("a"), str(epoch)]
    assert world.beat("n2") == ("ok", [[row], [], [[*row, "client_stop"]], []])
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.session("a").reason == "client_stop"


# Who may not.


def test_a_terminal_record_stays(world: World) -> None:
    """Ended is absorbing, whatever epoch is named."""
    world.add_node()
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    claim = world.claim("n1", "a", epoch + 9, bundle)
    assert world.call("adopt_session", **claim) == ("fenced", [])
    assert world.changes == {}


def test_a_node_that_was_declared_dead_adopts_nothing(world: World) -> None:
    """Its sessions went back to the line; a new life comes first."""
    world.add_node()
    world.bring("a", "running")
    claim = world.claim("n1", "a", world.epoch("a") + 9, world.bundle("a"))
    world.kill("n1")
    assert world.call("adopt_session", **claim) == ("fenced", [])
    assert world.changes == {}


def test_another_life_adopts_nothing(world: World) -> None:
    """A call of the life before may come last."""
    world.add_node()
    world.bring("a", "running")
    claim = world.claim("n1", "x", 7, world.bundle("a"), incarnation=1)
    assert world.call("adopt_session", **claim) == ("fenced", [])
    assert world.changes == {}


def test_what_was_taken_back_isn_t_adopted_when_its_record_has_expired(world: World) -> None:
    """A service that won't close keeps the session listed for hours; it stays quarantined."""
    world.add_node()
    world.bring("a", "running")
    epoch, bundle = world.epoch("a"), world.bundle("a")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.pass_time(30)
    world.run("sweep_deadlines", budget=64)
    assert world.slots() == ["!a"]
    for kind in ("s", "sd", "sp"):
        world.raw.delete(f"{world.prefix}{kind}:{sid('a')}")
    fenced = [sid("a"), str(epoch), "fenced"]
    assert world.beat() == ("ok", [[], [], [fenced], []])
    assert world.call("adopt_session", **world.claim("n1", "a", epoch, bundle)) == ("fenced", [])
    assert world.changes == {}


def test_the_owner_s_claim_is_answered_again(world: World) -> None:
    """The first answer was lost: it has it already."""
    world.add_node()
    world.bring("a", "running")
    claim = world.claim("n1", "a", world.epoch("a"), world.bundle("a"))
    assert world.call("adopt_session", **claim) == ("adopted", [])
    assert world.changes == {}
