"""What is a client told that follows a session, and what has it been told already? Pure.

A record's version is the id of what is told of it. A client that comes back names the last id that
it got, and goes on from there on any replica: versions follow a clock that survives lost data, so
what happens later always has a higher one.

- The present state comes first, unless the client has it already.
- One change is one or two events; the last of them carries the id, so a cut in between loses none.
- A place in line has no version: it is told when it changes, and carries no id.
- A record that is *older* than what the client knows has lost data behind it. Most of that heals by
  itself within seconds (nodes report what they play), so it is only told when it lasts. The same
  goes for a session that nobody knows any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.estimates import Estimate, is_off
from shared.records import SessionRecord
from shared.states import SessionState

DOUBTED_FOR_S = 15.0
"""Longer than nodes need to report after lost data: two beats, or a new life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A session as it was seen; no record: nobody knows it (any more)."""

    record: SessionRecord | None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One event for a client."""

    event: str
    data: dict[str, object]
    id: int | None = None


class Telling:
    """What one client is told, from one sight to the next."""

    def __init__(self, last_id: int | None = None) -> None:
        self._told = last_id
        self._last: SessionRecord | None = None
        self._place: tuple[int | None, Estimate | None, float] | None = None
        self._doubted_since_s: float | None = None
        self.is_over = False
        """Nothing more will come: the session has ended, or is gone."""

    def knows_the_end(self, record: SessionRecord) -> bool:
        """Whether there is nothing left to tell from the start."""
        return record.ended and self._told is not None and self._told >= record.version

    def of(self, sight: Sight, now_s: float) -> list[News]:
        """Return what is new in *sight*."""
        record = sight.record
        if record is None or (self._told is not None and record.version < self._told):
            return self._doubt(sight, now_s)
        self._doubted_since_s = None
        if self._told is None or record.version > self._told:
            return self._tell(record, sight, now_s)
        self._last = record
        return self._place_if_new(record, sight, now_s)

    def _doubt(self, sight: Sight, now_s: float) -> list[News]:
        if self._doubted_since_s is None:
            self._doubted_since_s = now_s
        if now_s - self._doubted_since_s < DOUBTED_FOR_S:
            return []
        if sight.record is None:
            self.is_over = True
            return [News(event="ended", data={"status": None, "reason": "unknown_session"})]
        return self._tell(sight.record, sight, now_s)

    def _tell(self, record: SessionRecord, sight: Sight, now_s: float) -> list[News]:
        news = self._changes(record, sight, now_s)
        self._last = record
        if self._told is None or record.version > self._told:
            self._told = record.version
            if news:
                last = news[-1]
                news[-1] = News(event=last.event, data=last.data, id=record.version)
        return news

    def _changes(self, record: SessionRecord, sight: Sight, now_s: float) -> list[News]:
        before = self._last
        if before is not None and _seen(before) == _seen(record):
            return self._place_if_new(record, sight, now_s)
        if record.ended:
            self.is_over = True
            return [News(event="ended", data={**_stage(record), "error": record.error})]
        returned = before is not None and record.attempt > before.attempt
        if record.state is SessionState.QUEUED:
            self._place = (record.position, sight.estimate, now_s)
            data = _stage(record) | _place(record, sight.estimate)
            if returned:
                return [News(event="requeued", data=data | {"reason": record.returned_because})]
            return [News(event="queued", data=data)]
        data = _stage(record)
        news = [News(event=_word(record, before), data=data)]
        if returned:  # it moved on before anybody looked
            data = {"attempt": record.attempt, "reason": record.returned_because}
            news.insert(0, News(event="requeued", data=data))
        return news

    def _place_if_new(self, record: SessionRecord, sight: Sight, now_s: float) -> list[News]:
        if record.state is not SessionState.QUEUED:
            return []
        if self._place is not None:
            position, estimate, told_s = self._place
            if position == record.position and not is_off(estimate, sight.estimate, now_s - told_s):
                return []
        self._place = (record.position, sight.estimate, now_s)
        return [News(event="queued", data=_stage(record) | _place(record, sight.estimate))]


def _seen(record: SessionRecord) -> tuple[object, ...]:
    """What a client can tell apart."""
    return (record.state, record.epoch, record.attempt, record.reason, record.node_id)


def _word(record: SessionRecord, before: SessionRecord | None) -> str:
    if record.state is SessionState.ASSIGNED:
        return "assigned"
    if record.state is SessionState.RUNNING and record.attempt > 1:
        runs_on = before is not None and _run(before) == _run(record)
        return "state" if runs_on else "resumed"
    return "state"


def _run(record: SessionRecord) -> tuple[SessionState, int]:
    return record.state, record.epoch


def _stage(record: SessionRecord) -> dict[str, object]:
    return {
        "status": record.state,
        "reason": record.reason,
        "attempt": record.attempt,
        "epoch": record.epoch,
        "node_id": record.node_id,
        "expires_at": record.expires_at_s,
    }


def _place(record: SessionRecord, estimate: Estimate | None) -> dict[str, object]:
    return {
        "position": record.position,
        "eta": estimate.middle_s if estimate else None,
        "eta_range": estimate.range_s if estimate else None,
    }
