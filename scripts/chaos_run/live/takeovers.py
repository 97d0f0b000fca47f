"""How long was the stage dark for those who watched, and did anybody see a ghost? Pure.

A takeover is one session's way from the fault to the first real frame of its new worker, as it
arrived in the room. The audit trail says where the time went:

- *detection*: the fault → the session is back in line,
- *dispatch*: → it has a slot again,
- *join*: → the new worker is in the room and the controller with it,
- *start*: → the pipeline session runs,
- *frame*: → its first real frame is played,
- *arrival*: → and has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scripts.chaos_run.live.watcher import Arrival
from shared.events import Event

PARTS = ("detection", "dispatch", "join", "start", "frame", "arrival")
_STEPS = ("returned", "assigned", "starting_pipeline", "running")
"""The entries of the trail that end all parts but the last two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One session that changed its worker."""

    session_id: str
    old_node: str
    new_node: str
    total_ms: int
    dark_ms: int
    """From the old worker's last frame to the new one's first, both as they arrived."""
    parts_ms: dict[str, int]
    """Only those that the trail tells."""


def takeover(
    session_id: str, frames: Sequence[Arrival], events: Iterable[Event], *, since_ms: float
) -> Takeover | None:
    """Return how a session changed its worker after *since_ms*; None if it didn't."""
    before = [frame for frame in frames if frame.at_ms <= since_ms]
    if not before:
        return None
    old = max(before, key=lambda frame: frame.order)
    new = next((frame for frame in frames if frame.order > old.order), None)
    if new is None:
        return None
    played = frames[: frames.index(new)]
    return Takeover(
        session_id=session_id,
        old_node=old.node_id,
        new_node=new.node_id,
        total_ms=round(new.at_ms - since_ms),
        dark_ms=round(new.at_ms - played[-1].at_ms),
        parts_ms=_parts(session_id, new, events, since_ms),
    )


def _parts(
    session_id: str, new: Arrival, events: Iterable[Event], since_ms: float
) -> dict[str, int]:
    ends: dict[str, float] = {}
    for event in events:
        if event.session_id != session_id or event.at_ms < since_ms:
            continue
        if event.what == "returned":
            ends.setdefault("returned", event.at_ms)
        elif event.what in _STEPS and event.epoch == new.order[0]:
            ends[event.what] = event.at_ms
    parts: dict[str, int] = {}
    begin_ms: float | None = since_ms
    for name, end_ms in zip(PARTS, (*map(ends.get, _STEPS), new.sent_ms, new.at_ms), strict=True):
        if begin_ms is not None and end_ms is not None:
            parts[name] = max(0, round(end_ms - begin_ms))
        begin_ms = end_ms
    return parts


def ghosts(session_id: str, frames: Iterable[Arrival]) -> Iterator[str]:
    """Find frames of an older worker that arrived after one of a newer: told once per worker."""
    newest: Arrival | None = None
    seen: dict[tuple[int, int], tuple[int, Arrival, Arrival]] = {}
    for frame in frames:
        if newest is None or frame.order >= newest.order:
            newest = frame
            continue
        count, first, before = seen.get(frame.order, (0, frame, newest))
        seen[frame.order] = (count + 1, first, before)
    for count, first, before in seen.values():
        late_s = (first.at_ms - before.at_ms) / 1000
        yield (
            f"{session_id}: {count} frames of {first.node_id} under {first.order} arrived, the "
            f"first {late_s:.3f} s after one of {before.node_id} under {before.order}"
        )
