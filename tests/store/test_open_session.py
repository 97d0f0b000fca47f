"""open_session: one more in line, and whoever is first steps onto a free slot."""

from __future__ import annotations

import pytest

from shared.store import replies
from tests.support.scenario import START_MS, World, sid

T = str(START_MS)


def test_without_a_node_a_session_waits(world: World) -> None:
    """Everything that is written for one waiting session, and nothing else."""
    word, (fields,) = world.call("open_session", **world.opening("a"))
    assert word == "created"
    assert replies.session(fields).position == 1
    deadline = str(START_MS + 60_000)
    assert world.changes == {
        "q a": T,
        "s:a state": "queued",
        "s:a ticket": T,
        "s:a epoch": "0",
        "s:a attempt": "1",
        "s:a created": T,
        "s:a queued_rt": T,
        "s:a updated": T,
        "s:a ver": T,
        "s:a node": "",
        "s:a d_queued": "60000",
        "s:a d_assigned": "7000",
        "s:a d_joining": "15000",
        "s:a d_controller": "60000",
        "s:a d_room_empty": "30000",
        "s:a d_starting": "120000",
        "s:a d_session": "1800000",
        "s:a d_draining": "30000",
        "s:a t_queued": deadline,
        "dl a": deadline,
        "sd:a identity": "ann",
        "sp:a": "{}",
        "ctr rt": T,
        "ctr rt_wall": T,
        "ctr schema": "1",
        "ctr ticket": T,
        "ctr version": T,
        "ctr n_opened": "1",
        "ev 1": "queued a",
    }


def test_a_free_slot_is_given_in_the_same_step(world: World) -> None:
    """The reply is already `assigned`; the session limit runs from here."""
    world.add_node("n1", capacity=2)
    word, (fields,) = world.call("open_session", **world.opening("a"))
    record = replies.session(fields)
    assert (word, record.state, record.node_id) == ("created", "assigned", "n1")
    assert record.epoch == START_MS
    assert record.expires_at_s == START_MS / 1000 + 1800
    seen = {fact: world.changes.get(fact) for fact in _ASSIGNED}
    assert seen == _ASSIGNED
    assert "q a" not in world.changes


_ASSIGNED = {
    "ns:n1 a": T,
    "free n1": "0.5",
    "s:a state": "assigned",
    "s:a node": "n1",
    "s:a epoch": T,
    "s:a admitted": T,
    "s:a assigned": T,
    "s:a assigned_rt": T,
    "s:a t_assigned": str(START_MS + 7_000),
    "s:a t_session": str(START_MS + 1_800_000),
    "dl a": str(START_MS + 7_000),
    "ctr top": T,
    "ctr epoch": T,
    "ctr n_assigned": "1",
}


def test_the_same_session_id_opens_once(world: World) -> None:
    """A repeat answers with the session in its present state."""
    world.add_node()
    world.bring("a", "running")
    word, (fields,) = world.call("open_session", **world.opening("a"))
    assert (word, replies.session(fields).state) == ("exists", "running")
    assert world.changes == {}


def test_an_idempotency_key_names_one_session(world: World) -> None:
    """The key leads to the first session, whatever id the repeat brings; it lives as long."""
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    assert world.call("open_session", **world.opening("a", **key))[0] == "created"
    assert world.changes["idem:ab12"] == "a f1"
    assert world.changes["s:a idem"] == "ab12"
    word, (fields,) = world.call("open_session", **world.opening("b", **key))
    assert (word, replies.session(fields).session_id) == ("exists", sid("a"))
    assert world.changes == {}


@pytest.mark.parametrize("letter", ["a", "b"])
def test_asking_for_it_again_keeps_a_place_in_line(world: World, letter: str) -> None:
    """A client whose answers get lost is there all the same, whichever of its calls arrive."""
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    world.open("a", **key)
    world.pass_time(59)
    word, (fields,) = world.call("open_session", **world.opening(letter, **key))
    assert (word, replies.session(fields).session_id) == ("exists", sid("a"))
    deadline = str(START_MS + 119_000)
    assert world.changes == {"s:a t_queued": deadline, "dl a": deadline}


def test_asking_again_sets_no_limit_where_there_is_none(world: World) -> None:
    """The waiting lease may be off."""
    world.open("a", d_queued=0)
    assert world.call("open_session", **world.opening("a"))[0] == "exists"
    assert world.changes == {}


def test_an_idempotency_key_still_answers_when_its_session_has_ended(world: World) -> None:
    """The answer is the ended session; no second one begins."""
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    world.open("a", **key)
    world.call("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.changes["idem:ab12 ttl"] == "3600"
    word, (fields,) = world.call("open_session", **world.opening("b", **key))
    assert (word, replies.session(fields).state) == ("exists", "closed")


def test_an_idempotency_key_refuses_another_body(world: World) -> None:
    """Same key, other fingerprint: a conflict, and nothing is written."""
    world.open("a", idempotency_hash="ab12", fingerprint="f1")
    other = world.opening("b", idempotency_hash="ab12", fingerprint="f2")
    assert world.call("open_session", **other) == ("conflict", [])
    assert world.changes == {}


def test_a_forgotten_session_frees_its_idempotency_key(world: World) -> None:
    """If only the key outlived its session, a new session begins under it."""
    world.raw.set(f"{world.prefix}idem:ab12", f"{sid('a')} f1", ex=60)
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    assert world.call("open_session", **world.opening("b", **key))[0] == "created"
    assert world.changes["idem:ab12"] == "b f1"


def test_without_a_line_only_a_free_slot_admits(world: World) -> None:
    """Queue size 0: refused when no slot is free, and nothing is written."""
    assert world.call("open_session", **world.opening("a", queue_size=0)) == ("full", [])
    assert world.changes == {}
    world.add_node()
    assert world.call("open_session", **world.opening("a", queue_size=0))[0] == "created"
    assert world.state("a") == "assigned n1"


def test_the_line_takes_as_many_as_it_may(world: World) -> None:
    """One more than the line holds is refused."""
    world.open("a", "b", queue_size=2)
    assert world.call("open_session", **world.opening("c", queue_size=2)) == ("full", [])
    assert world.line() == "ab"


def test_a_returned_session_takes_no_place_of_newcomers(world: World) -> None:
    """Its ticket was served before, so the line's size counts only those that never were."""
    world.add_node()
    world.bring("a", "running")
    world.kill("n1")
    assert world.line() == "a"
    assert world.call("open_session", **world.opening("b", queue_size=1))[0] == "created"
    assert world.call("open_session", **world.opening("c", queue_size=1)) == ("full", [])
    assert world.line() == "ab"


def test_a_newcomer_never_passes_the_line(world: World) -> None:
    """A free slot goes to the head: the newcomer waits even if it caused the dispatch."""
    world.open("a")
    world.add_node()
    assert world.state("a") == "assigned n1"
    world.open("b", "c")
    world.add_node("n2")
    assert [world.state(letter) for letter in "abc"] == ["assigned n1", "assigned n2", "queued"]


def test_a_free_slot_isn_t_a_newcomer_s_while_somebody_waits(world: World) -> None:
    """Between two parts of an evacuation both are there: the slot is the head's."""
    world.add_node("n1", capacity=2)
    world.bring("a", "running")
    world.bring("b", "running")
    world.pass_time(10)
    world.add_node("n2")
    assert world.run("sweep_nodes", budget=1)[0] == "more"
    assert (world.line(), world.free()) == ("a", ["n2"])
    assert world.call("open_session", **world.opening("c", queue_size=0)) == ("full", [])
    assert world.call("open_session", **world.opening("c"))[0] == "created"
    assert (world.state("a"), world.line()) == ("assigned n2", "c")


def test_the_least_used_node_is_taken_and_then_the_lower_name(world: World) -> None:
    """Load is used slots by capacity, not free slots."""
    world.add_node("n2", capacity=4)
    world.add_node("n1", capacity=2)
    world.open("a", "b", "c", "d", "e", "f")
    assert [world.state(letter)[-2:] for letter in "abcdef"] == ["n1", "n2", "n2", "n1", "n2", "n2"]


def test_a_node_that_fell_silent_is_given_nothing(world: World) -> None:
    """Its lease is over, though no sweep has said so yet."""
    world.add_node()
    world.pass_time(10)
    world.open("a")
    assert world.state("a") == "queued"


def test_many_silent_nodes_don_t_hide_a_live_one(world: World) -> None:
    """However many of the least used nodes are silent, the live one serves."""
    names = "abcdefghijklmnopqrstuvwx"
    for name in names:
        world.add_node(f"n{name}")
    world.pass_time(10)
    world.add_node("nz", capacity=2)
    assert world.call("open_session", **world.opening("a", queue_size=0))[0] == "created"
    assert world.state("a") == "assigned nz"


def test_numbers_go_on_rising_when_the_clock_steps_back(world: World) -> None:
    """An hour earlier by the wall clock, yet the later ticket is the higher one."""
    world.open("a")
    world.step_clock(-3600)
    world.open("b")
    world.step_clock(+7200)
    world.open("c")
    assert world.line() == "abc"


def test_an_image_is_kept_once_its_session_exists(world: World) -> None:
    """Claimed by `open`: no time to live any more, and counted against the budget."""
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=100)
    world.call("open_session", **world.opening("a"))
    assert world.changes["a:a ttl"] is None
    assert world.changes["ctr image_bytes"] == "4"


def test_a_refused_session_leaves_no_image(world: World) -> None:
    """Nobody will claim it, and a minute of refused images could fill the memory."""
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=100)
    assert world.call("open_session", **world.opening("a", queue_size=0))[0] == "full"
    assert world.changes == {"a:a": None, "a:a ttl": None}


def test_a_replayed_request_leaves_no_second_image(world: World) -> None:
    """The session that the key names keeps its own; the repeat's copy goes."""
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    for letter in "ab":
        world.run("put_image", session_id=sid(letter), image=b"jpeg", budget_bytes=100)
        world.call("open_session", **world.opening(letter, **key))
    assert world.changes == {"a:b": None, "a:b ttl": None}
    other = world.opening("c", idempotency_hash="ab12", fingerprint="f2")
    world.run("put_image", session_id=sid("c"), image=b"jpeg", budget_bytes=100)
    assert world.call("open_session", **other)[0] == "conflict"
    assert world.changes == {"a:c": None, "a:c ttl": None}
    world.call("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.fact("ctr", "image_bytes") == "0"


def opened(world: World, letter: str, **limits: int) -> str:
    """Open a session of the one identity that is counted; returns the reply's word."""
    return world.call("open_session", **world.opening(letter, identity_hash="ab12", **limits))[0]


def test_an_identity_may_wait_so_often(world: World) -> None:
    """One more is refused and writes nothing; another identity isn't concerned."""
    assert [opened(world, letter, most_waiting=2) for letter in "abc"] == [
        "created",
        "created",
        "limited",
    ]
    assert world.changes == {}
    other = world.opening("d", identity_hash="cd34", most_waiting=2)
    assert world.call("open_session", **other)[0] == "created"


def test_who_is_served_at_once_doesn_t_wait(world: World) -> None:
    """The limit of those that wait is no limit of those on stage."""
    world.add_node(capacity=2)
    assert [opened(world, letter, most_waiting=1) for letter in "ab"] == ["created"] * 2
    assert [opened(world, letter, most_waiting=1) for letter in "cd"] == ["created", "limited"]


def test_an_identity_may_be_on_stage_so_often(world: World) -> None:
    """Those that wait for it count, so nobody has to be passed over in line later."""
    world.add_node()
    assert [opened(world, letter, most_active=2) for letter in "abc"] == [
        "created",
        "created",
        "limited",
    ]
    world.run("cancel_session", session_id=sid("b"), reason="client_stop")
    assert opened(world, "c", most_active=2) == "created"


def test_a_session_that_is_ending_no_longer_counts(world: World) -> None:
    """Its slot isn't free yet, but its client may begin the next one."""
    world.add_node()
    world.open("a", identity_hash="ab12")
    world.accept("a")
    assert opened(world, "b", most_active=1) == "limited"
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert opened(world, "b", most_active=1) == "created"
    world.run("end_session", **world.owner("a"), reason="completed", error="")
    assert world.raw.zrange(f"{world.prefix}id:ab12", 0, -1) == [sid("b")]


def test_a_repeat_isn_t_refused(world: World) -> None:
    """The same call finds its session, whatever the limit."""
    assert [opened(world, "a", most_waiting=1) for _ in range(2)] == ["created", "exists"]


def test_what_is_counted_goes_with_the_last_session(world: World) -> None:
    """No key is left of an identity; a session whose record was lost doesn't count for ever."""
    opened(world, "a", most_waiting=1)
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert not world.raw.exists(f"{world.prefix}id:ab12")
    world.raw.zadd(f"{world.prefix}id:ab12", {sid("x"): 1})
    assert opened(world, "b", most_waiting=1) == "created"
    assert world.raw.zrange(f"{world.prefix}id:ab12", 0, -1) == [sid("b")]


def test_nobody_is_counted_without_a_limit(world: World) -> None:
    """No key is made of an identity."""
    world.call("open_session", **world.opening("a"))
    assert not [fact for fact in world.changes if fact.startswith("id:")]
