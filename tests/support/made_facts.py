"""How does a pure test get facts of the registry? Made by hand, and sound unless it says so."""

from __future__ import annotations

from dataclasses import replace

from shared.facts import ABSENT, STAYS, Lifetimes, Member, NodeFacts, PoolFacts, SessionFacts
from shared.states import SessionState

NOW_MS = 1_800_000_000_000
"""Wall clock and registry time."""
HOUR_MS = 3_600_000

LIVE = Lifetimes(record=STAYS, texts=STAYS, request=STAYS, image=ABSENT, idempotency=ABSENT)
ENDED = Lifetimes(record=HOUR_MS, texts=HOUR_MS, request=HOUR_MS, image=ABSENT, idempotency=ABSENT)


def session(name: str = "a", **record: str) -> SessionFacts:
    """A session with some fields of its record."""
    return SessionFacts(
        session_id=name,
        record=record,
        texts={},
        position=None,
        line_ticket=None,
        deadline_ms=None,
        slot_epoch=None,
        quarantine_epoch=None,
        image_bytes=0,
        lifetimes=LIVE,
    )


def waiting(name: str = "a", *, ticket: int = 5, position: int = 1, **record: str) -> SessionFacts:
    """A session that stands in line."""
    facts = session(name, state="queued", ticket=str(ticket), epoch="0", node="", **record)
    return replace(facts, position=position, line_ticket=ticket)


def resident(name: str = "a", *, state: str = "running", **record: str) -> SessionFacts:
    """A session that holds a slot of n1 under the epoch 7."""
    known = {"state": state, "ticket": "5", "epoch": "7", "node": "n1", "connected": "1"}
    return replace(session(name, **{**known, **record}), slot_epoch=7)


def ended(name: str = "a", **record: str) -> SessionFacts:
    """A session that has ended."""
    known = {"state": "closed", "ticket": "5", "epoch": "7", "node": "n1"}
    return replace(session(name, **{**known, **record}), lifetimes=ENDED)


def member(name: str = "a", **changes: object) -> Member:
    """A slot of n1 that a session holds."""
    known = Member(
        session_id=name,
        epoch=7,
        quarantined=False,
        state=SessionState.RUNNING,
        node_id="n1",
        session_epoch=7,
        acked=1,
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def node(*members: Member, name: str = "n1", **record: str) -> NodeFacts:
    """A live node with two slots, ready; in `free` while it has room."""
    known = {
        "state": "idle", "capacity": "2", "draining": "0", "media_ok": "1", "beat": str(NOW_MS),
        "stamp": "9", "listed": str(len(members)), "kept": "0", "strangers": "0",
    }  # fmt: skip
    return NodeFacts(
        node_id=name,
        record={**known, **record},
        lease_ms=NOW_MS + 10_000,
        free_score=len(members) / 2 if len(members) < 2 else None,
        lifetime_ms=STAYS,
        members=members,
    )


def pool(*sessions: SessionFacts, nodes: tuple[NodeFacts, ...] = (), **counters: str) -> PoolFacts:
    """What was looked at together."""
    known = {"ticket": "1000", "epoch": "1000"}
    return PoolFacts(
        pool="default",
        at_ms=NOW_MS,
        registry_ms=NOW_MS,
        counters={**known, **counters},
        sessions=sessions,
        nodes=nodes,
    )
