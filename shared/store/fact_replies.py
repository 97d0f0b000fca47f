"""How does the reply of ``inspect`` become facts? Pure.

The one place that knows the order of its fields.
"""

from __future__ import annotations

from typing import cast

from shared.facts import Lifetimes, Member, NodeFacts, PoolFacts, SessionFacts, known_state
from shared.store.scripts import Reply


def pool(name: str, reply: Reply) -> PoolFacts:
    """Decode one whole reply."""
    at, registry, counters, sessions, nodes = reply
    return PoolFacts(
        pool=name,
        at_ms=_number(at) or 0,
        registry_ms=_number(registry) or 0,
        counters=_hash(counters),
        sessions=tuple(_session(row) for row in cast("list[list[object]]", sessions)),
        nodes=tuple(_node(row) for row in cast("list[list[object]]", nodes)),
    )


def _session(row: list[object]) -> SessionFacts:
    name, record, texts, rank, ticket, deadline, slot, quarantine, image, lifetimes = row
    rank_number = _number(rank)
    of_record, of_texts, of_request, of_image, of_key = cast("list[str]", lifetimes)
    return SessionFacts(
        session_id=str(name),
        record=_hash(record),
        texts=_hash(texts),
        position=None if rank_number is None else rank_number + 1,
        line_ticket=_number(ticket),
        deadline_ms=_number(deadline),
        slot_epoch=_number(slot),
        quarantine_epoch=_number(quarantine),
        image_bytes=_number(image) or 0,
        lifetimes=Lifetimes(
            record=int(of_record),
            texts=int(of_texts),
            request=int(of_request),
            image=int(of_image),
            idempotency=int(of_key),
        ),
    )


def _node(row: list[object]) -> NodeFacts:
    name, record, lease, free, lifetime, members = row
    return NodeFacts(
        node_id=str(name),
        record=_hash(record),
        lease_ms=_number(lease),
        free_score=float(str(free)) if free else None,
        lifetime_ms=_number(lifetime) or 0,
        members=tuple(_member(*member) for member in cast("list[list[str]]", members)),
    )


def _member(
    name: str, epoch: str, state: str, node_id: str, session_epoch: str, acked: str
) -> Member:
    return Member(
        session_id=name.removeprefix("!"),
        epoch=_number(epoch) or 0,
        quarantined=name.startswith("!"),
        state=known_state(state),
        node_id=node_id,
        session_epoch=_number(session_epoch),
        acked=_number(acked),
    )


def _hash(flat: object) -> dict[str, str]:
    items = cast("list[str]", flat)
    return dict(zip(items[::2], items[1::2], strict=True))


def _number(text: object) -> int | None:
    """Read a whole number; scores come as floats in text."""
    return int(float(str(text))) if text != "" else None
