"""Do the product's own checks agree with the verdict?

The audit that operators run, and the fairness receipt recomputed from the audit trail. They come to
their own conclusions from the same registry; whatever one of the two finds is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.evidence import audit
from control_plane.receipts import Window, findings, receipt_of
from scripts.chaos_run.schedule import POOL
from shared.events import Event
from shared.rooms.admin import RoomAdmin
from shared.store import Registry

_AGAIN_AFTER_S = 1.5
"""Between two looks: three beats."""


async def differences(registry: Registry, rooms: RoomAdmin | None = None) -> list[str]:
    """Return what ``greenroom audit`` would tell once all is at rest; *rooms*: if they are real."""
    audited = await audit(registry, POOL, rooms=rooms, again_after_s=_AGAIN_AFTER_S)
    return [f"audit: {one.part} {one.subject}: {one.text}" for one in audited.differences]


def breaks(events: Sequence[Event]) -> list[str]:
    """Return what ``greenroom receipt --verify`` would tell of a trail that begins and ends empty.

    An admission whose wait isn't in the trail belongs to a session that Redis lost and took back.
    """
    if not events:
        return []
    first, last = events[0].id, events[-1].id
    receipt = receipt_of(
        Window(pool=POOL, since=first, until=last), events, {}, line_read_after=last
    )
    return [f"receipt: {finding.sentence()}" for finding in findings(receipt)]
