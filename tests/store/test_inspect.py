"""inspect: all that stands under some names."""

from __future__ import annotations

from shared.facts import ABSENT, STAYS, Lifetimes, PoolFacts
from shared.store import fact_replies
from shared.store.scripts import Argument
from tests.support.redis_server import POOL
from tests.support.scenario import START_MS, World, sid

T = START_MS
HOUR_MS = 3_600_000


def look(world: World, letters: str = "", nodes: str = "") -> PoolFacts:
    """Look at sessions, by their letters, and at nodes; nothing may change."""
    names: dict[str, Argument] = {
        "session_ids": " ".join(map(sid, letters)),
        "node_ids": nodes,
    }
    word, fields = world.call("inspect", **names)
    assert (word, world.changes) == ("ok", {})
    return fact_replies.pool(POOL, fields)


def test_a_waiting_session(world: World) -> None:
    """Its place, its ticket, its deadline; all its keys stay while it lives."""
    world.open("a")
    world.run("put_image", session_id=sid("b"), image=b"jpeg", budget_bytes=99)
    world.open("b", idempotency_hash="ab12", fingerprint="f1")
    _, b = look(world, "ab").sessions
    assert (b.session_id, b.state, b.position, b.line_ticket) == (sid("b"), "queued", 2, T + 1)
    assert b.deadline_ms == b.deadlines()["queued"] == T + 60_000
    assert (b.slot_epoch, b.quarantine_epoch, b.node_id) == (None, None, "")
    assert (b.texts["identity"], b.image_bytes) == ("ann", 4)
    assert b.lifetimes == Lifetimes(
        record=STAYS, texts=STAYS, request=STAYS, image=STAYS, idempotency=STAYS
    )


def test_a_resident_session_and_its_node(world: World) -> None:
    """The slot under its epoch, seen from both sides."""
    world.add_node(capacity=2)
    world.bring("a", "running")
    world.open("b")
    facts = look(world, "a", "n1")
    (a,), (n1,) = facts.sessions, facts.nodes
    assert (a.state, a.node_id, a.position, a.line_ticket) == ("running", "n1", None, None)
    assert a.slot_epoch == a.number("epoch") == world.epoch("a")
    assert (n1.lease_ms, n1.free_score, n1.lifetime_ms) == (T + 10_000, None, STAYS)
    assert (n1.record["state"], n1.number("capacity")) == ("idle", 2)
    first, second = n1.members
    assert (first.session_id, first.epoch, first.quarantined) == (sid("a"), a.slot_epoch, False)
    assert (first.state, first.node_id, first.session_epoch) == ("running", "n1", a.slot_epoch)
    assert (first.acked, second.acked, second.state) == (0, None, "assigned")


def test_a_quarantined_slot(world: World) -> None:
    """The ended session and what is left of it, and how long its keys are still kept."""
    world.add_node(capacity=2)
    world.bring("a", "running", idempotency_hash="ab12")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.pass_time(30)
    world.beat()
    world.run("sweep_deadlines", budget=64)
    facts = look(world, "a", "n1")
    (a,), (n1,) = facts.sessions, facts.nodes
    assert (a.state, a.is_live, a.slot_epoch, a.deadline_ms) == ("closed", False, None, None)
    assert a.quarantine_epoch == world.epoch("a")
    (member,) = n1.members
    assert (member.session_id, member.quarantined, member.state) == (sid("a"), True, "closed")
    assert n1.free_score == 0.5
    lives = a.lifetimes
    for lifetime_ms in (lives.record, lives.texts, lives.request, lives.idempotency):
        assert HOUR_MS - 60_000 < lifetime_ms <= HOUR_MS
    assert lives.image == ABSENT


def test_unknown_names_have_empty_records(world: World) -> None:
    """They are answered all the same, in the order asked."""
    facts = look(world, "a", "n1")
    (a,), (n1,) = facts.sessions, facts.nodes
    assert (a.session_id, a.record, a.state, a.lifetimes.record) == (sid("a"), {}, None, ABSENT)
    assert (n1.node_id, n1.record, n1.lease_ms, n1.members) == ("n1", {}, None, ())
    assert n1.lifetime_ms == ABSENT


def test_the_counters_and_both_clocks(world: World) -> None:
    """Whoever reads deadlines needs the registry's time beside the wall clock."""
    world.open("a")
    world.pass_time(3)
    world.step_clock(-3600)
    facts = look(world)
    assert (facts.at_ms, facts.registry_ms) == (T + 3_000 - 3_600_000, T + 3_000)
    assert (facts.counters["n_opened"], facts.sessions, facts.nodes) == ("1", (), ())
