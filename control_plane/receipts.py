"""Did anybody overtake anybody? Pure.

A receipt is a window of the audit trail, reduced to what order depends on: who waited from when
until when, and who was admitted. Whoever has it can recompute the order without the registry
(`receipt_text` is how it is written down).

A place is an id of the trail: ids never go back, so their order is the order of events. Who waited
before the window began is known from tickets: the first that is heard of a session tells whether it
waited until then, and of whom nothing is heard at all, the line itself tells.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.events import Event, Place, place_of

MOST_FINDINGS = 1000
_NEWCOMER = "queued"
_START: Place = (0, 0)


class Rule(StrEnum):
    """What must hold of every line; each value is the sentence that was broken."""

    LOWEST_FIRST = "whoever has the lowest ticket steps on first"
    NO_SIDE_DOOR = "only who waits in line steps on"
    BEHIND_THE_LAST = "a newcomer's ticket is above all earlier ones"
    ONE_TICKET = "a session keeps its ticket for life"
    ONE_SESSION = "a ticket belongs to one session"
    NOBODY_VANISHES = "nobody leaves the line without a word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One stay in the line."""

    session_id: str
    ticket: int
    since: str | None
    """Place where it began; None: before the window."""
    until: str | None
    """Place where it ended; None: not within the window."""
    by: str
    """queued, returned and why, or before."""
    left_by: str
    """assigned, ended and why, waiting, or vanished."""

    @property
    def begins(self) -> Place:
        return place_of(self.since) if self.since else _START


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The head of the line steps on."""

    session_id: str
    ticket: int
    at: str
    node_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From which place to which one the trail was read."""

    pool: str
    since: str
    until: str
    complete: bool = True
    """False: the trail begins later than was asked: it was trimmed or lost, or is no older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What order depends on, within one window."""

    window: Window
    waits: tuple[Wait, ...]
    admissions: tuple[Admission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One break of a rule: *session_id* suffered, *by* gained (if anybody did)."""

    rule: Rule
    session_id: str
    at: str
    by: str = ""

    def sentence(self) -> str:
        """Say it to a person."""
        if self.by:
            return f"{self.session_id} was overtaken by {self.by} at {self.at}: {self.rule}."
        return f"{self.session_id} at {self.at}: {self.rule}."


# --- from the trail to a receipt ----------------------------------------------------------------


@dataclass(slots=True)
class _Stay:
    """One stay in the line that may go on."""

    ticket: int
    since: str | None
    by: str


@dataclass(slots=True)
class _Reader:
    """Follows the trail; knows who waits now, and of whom anything was heard."""

    waiting: dict[str, _Stay] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    waits: list[Wait] = field(default_factory=list)
    admissions: list[Admission] = field(default_factory=list)

    def read(self, event: Event) -> None:
        """Take the next entry."""
        if not event.session_id or event.ticket is None:
            return
        name, ticket = event.session_id, event.ticket
        is_first = name not in self.heard
        self.heard.add(name)
        if event.what in (_NEWCOMER, "returned"):
            by = _told(event)
            self._leave(name, event.id, by)
            self.waiting[name] = _Stay(ticket=ticket, since=event.id, by=by)
        elif event.what == "assigned":
            if is_first:
                self.waiting[name] = _Stay(ticket=ticket, since=None, by="before")
            self._leave(name, event.id, "assigned")
            self.admissions.append(
                Admission(
                    session_id=name,
                    ticket=ticket,
                    at=event.id,
                    node_id=event.node_id,
                    epoch=event.epoch or 0,
                )
            )
        elif event.what == "adopted":  # Redis had lost its admission; its node holds it still
            self._leave(name, event.id, "adopted")
        elif event.what == "ended":
            if is_first and not event.node_id:  # it held no slot, so it waited
                self.waiting[name] = _Stay(ticket=ticket, since=None, by="before")
            self._leave(name, event.id, _told(event))

    def _leave(self, name: str, at: str | None, left_by: str) -> None:
        stay = self.waiting.pop(name, None)
        if stay is not None:
            self.waits.append(
                Wait(
                    session_id=name,
                    ticket=stay.ticket,
                    since=stay.since,
                    until=at,
                    by=stay.by,
                    left_by=left_by,
                )
            )

    def close(self, line: Mapping[str, int], line_read_after: str) -> None:
        """The trail ends: add who never moved, and tell who isn't in the line any more."""
        for name, ticket in line.items():
            if name not in self.heard:
                self.waiting[name] = _Stay(ticket=ticket, since=None, by="before")
        read_after = place_of(line_read_after)
        for name, stay in list(self.waiting.items()):
            came_earlier = stay.since is None or place_of(stay.since) <= read_after
            gone = came_earlier and name not in line
            self._leave(name, None, "vanished" if gone else "waiting")


def receipt_of(
    window: Window, events: Iterable[Event], line: Mapping[str, int], *, line_read_after: str
) -> Receipt:
    """Reduce a trail to a receipt.

    Args:
        window: What is asked for.
        events: The trail from the window's beginning up to now, beyond the window's end too.
        line: Who stood in the line with which ticket, read before the end of *events*.
        line_read_after: The trail's last place when the reading of *line* began.
    """
    reader = _Reader()
    for event in events:
        reader.read(event)
    reader.close(line, line_read_after)
    end = place_of(window.until)
    waits = [_cut(wait, end) for wait in reader.waits if wait.begins <= end]
    return Receipt(
        window=window,
        waits=tuple(sorted(waits, key=lambda wait: (wait.begins, wait.ticket))),
        admissions=tuple(one for one in reader.admissions if place_of(one.at) <= end),
    )


def _told(event: Event) -> str:
    return f"{event.what}: {event.why}" if event.why else event.what


def _cut(wait: Wait, end: Place) -> Wait:
    if wait.until is None or place_of(wait.until) <= end:
        return wait
    return Wait(
        session_id=wait.session_id,
        ticket=wait.ticket,
        since=wait.since,
        until=None,
        by=wait.by,
        left_by="waiting",
    )


# --- the check ----------------------------------------------------------------------------------


def findings(receipt: Receipt) -> list[Finding]:
    """Recompute the order; return every break of a rule, up to `MOST_FINDINGS`."""
    found: list[Finding] = []
    for check in (_order, _newcomers, _tickets, _vanished):
        for finding in check(receipt):
            if len(found) >= MOST_FINDINGS:
                return found
            found.append(finding)
    return found


def _order(receipt: Receipt) -> Iterator[Finding]:
    """At each admission, nobody with a lower ticket waits."""
    steps: list[tuple[Place, int, Wait | Admission]] = []
    for wait in receipt.waits:
        steps.append((wait.begins, 0, wait))
        if wait.until is not None and wait.left_by != "assigned":
            steps.append((place_of(wait.until), 1, wait))
    steps += [(place_of(admission.at), 2, admission) for admission in receipt.admissions]
    steps.sort(key=lambda step: step[:2])
    line: list[tuple[int, str]] = []
    for _, kind, item in steps:
        entry = (item.ticket, item.session_id)
        place = bisect.bisect_left(line, entry)
        if kind == 0:
            line.insert(place, entry)
            continue
        stood = place < len(line) and line[place] == entry
        if isinstance(item, Admission):
            if not stood:
                yield Finding(rule=Rule.NO_SIDE_DOOR, session_id=item.session_id, at=item.at)
            for _, overtaken in line[:place]:
                yield Finding(
                    rule=Rule.LOWEST_FIRST, session_id=overtaken, by=item.session_id, at=item.at
                )
        if stood:
            del line[place]


def _newcomers(receipt: Receipt) -> Iterator[Finding]:
    """Whoever comes new stands behind everybody who came before."""
    highest = ""
    top = -1
    for wait in receipt.waits:
        is_new = wait.by == _NEWCOMER
        if is_new and wait.ticket < top:
            yield Finding(
                rule=Rule.BEHIND_THE_LAST,
                session_id=highest,
                by=wait.session_id,
                at=wait.since or "",
            )
        if (is_new or wait.since is None) and wait.ticket > top:
            top, highest = wait.ticket, wait.session_id


def _tickets(receipt: Receipt) -> Iterator[Finding]:
    """One ticket for each session, one session for each ticket."""
    ticket_of: dict[str, int] = {}
    holder_of: dict[int, str] = {}
    items: list[tuple[Place, str, int, str]] = [
        (wait.begins, wait.session_id, wait.ticket, wait.since or receipt.window.since)
        for wait in receipt.waits
    ]
    items += [(place_of(one.at), one.session_id, one.ticket, one.at) for one in receipt.admissions]
    for _, name, ticket, at in sorted(items, key=lambda item: item[0]):
        if ticket_of.setdefault(name, ticket) != ticket:
            yield Finding(rule=Rule.ONE_TICKET, session_id=name, at=at)
        if holder_of.setdefault(ticket, name) != name:
            yield Finding(rule=Rule.ONE_SESSION, session_id=name, at=at)


def _vanished(receipt: Receipt) -> Iterator[Finding]:
    for wait in receipt.waits:
        if wait.left_by == "vanished":
            yield Finding(
                rule=Rule.NOBODY_VANISHES,
                session_id=wait.session_id,
                at=wait.since or receipt.window.since,
            )
