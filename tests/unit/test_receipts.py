"""Is an overtaking found, and is nobody accused wrongly?

Histories are made by playing a line: sessions come, step on, come back, leave. A fair line always
serves its head. Every window into such a history must pass; in a history with one planted
overtaking, every window that shows it must name exactly who lost and who gained.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.receipt_text import ReceiptChanged, read, written
from control_plane.receipts import Finding, Receipt, Rule, Window, findings, receipt_of
from shared.errors import StartupError
from shared.events import Event

STEPS = ("come", "come", "step_on", "step_on", "return", "leave", "end", "advance")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), min_size=1, max_size=60)
shares = st.floats(0, 1)
FEW = settings(max_examples=50, deadline=None)


@dataclass(slots=True)
class History:
    """A line that is played; its trail."""

    events: list[Event] = field(default_factory=list)
    line: dict[str, int] = field(default_factory=dict)
    on_stage: dict[str, int] = field(default_factory=dict)
    planted: Finding | None = None

    def happen(self, what: str, name: str, ticket: int, node_id: str = "", why: str = "") -> str:
        place = len(self.events) + 1
        entry = Event(
            id=f"{1000 + place // 3}-{place}",
            what=what,
            at_ms=place,
            session_id=name,
            ticket=ticket,
            node_id=node_id,
            epoch=place,
            why=why,
        )
        self.events.append(entry)
        return entry.id

    def play(self, step: str, choice: int) -> None:
        """Do one step, if it can be done."""
        waiting = sorted(self.line, key=lambda name: self.line[name])
        if step == "come":
            ticket = 10 + len(self.events)
            self.line[f"s{ticket}"] = ticket
            self.happen("queued", f"s{ticket}", ticket)
        elif step == "step_on" and waiting:
            self.step_on(waiting[0])
        elif step == "leave" and waiting:
            name = waiting[choice % len(waiting)]
            self.happen("ended", name, self.line.pop(name), why="client_stop")
        elif step in ("return", "end", "advance") and self.on_stage:
            name = sorted(self.on_stage)[choice % len(self.on_stage)]
            ticket = self.on_stage[name]
            if step == "advance":
                self.happen("running", name, ticket, node_id="n1")
                return
            del self.on_stage[name]
            if step == "end":
                self.happen("ended", name, ticket, node_id="n1", why="completed")
            else:
                self.line[name] = ticket
                self.happen("returned", name, ticket, node_id="n1", why="node_died")

    def step_on(self, name: str) -> str:
        ticket = self.line.pop(name)
        self.on_stage[name] = ticket
        return self.happen("assigned", name, ticket, node_id="n1")

    def overtake(self) -> None:
        """Let the second step on before the first."""
        for _ in range(2):
            self.play("come", 0)
        first, second = sorted(self.line, key=lambda name: self.line[name])[:2]
        at = self.step_on(second)
        self.planted = Finding(rule=Rule.LOWEST_FIRST, session_id=first, by=second, at=at)

    def receipt(self, since: int = 0, until: int | None = None) -> Receipt:
        """Return the receipt of the entries from place *since* to *until* in the list."""
        last = self.events[-1].id
        window = Window(
            pool="default",
            since=self.events[since].id,
            until=last if until is None else self.events[until].id,
        )
        return receipt_of(window, self.events[since:], self.line, line_read_after=last)


def played(*parts: list[tuple[str, int]]) -> History:
    """Play *parts*; between two of them somebody overtakes."""
    history = History()
    for number, part in enumerate(parts):
        if number:
            history.overtake()
        for step, choice in part:
            history.play(step, choice)
    return history


def place(history: History, share: float) -> int:
    """Return a place in the trail."""
    return round(share * (len(history.events) - 1))


@FEW
@given(steps, shares, shares)
def test_a_fair_line_passes_in_every_window(
    part: list[tuple[str, int]], begin: float, end: float
) -> None:
    """Whatever the window cuts off: tickets tell who waited before it."""
    history = played([("come", 0), *part])
    since, until = sorted((place(history, begin), place(history, end)))
    assert findings(history.receipt(since, until)) == []


@FEW
@given(steps, steps, shares, shares)
def test_a_planted_overtaking_is_found_in_every_window_that_shows_it(
    before: list[tuple[str, int]], after: list[tuple[str, int]], begin: float, end: float
) -> None:
    """By name, with place and rule, even if both came before the window and never moved again."""
    history = played(before, after)
    assert history.planted is not None
    shown = next(i for i, one in enumerate(history.events) if one.id == history.planted.at)
    since, until = sorted((place(history, begin), place(history, end)))
    found = findings(history.receipt(since, until))
    assert (history.planted in found) == (since <= shown <= until)


@FEW
@given(steps)
def test_what_is_written_is_read(part: list[tuple[str, int]]) -> None:
    """Nothing is lost on paper."""
    receipt = played([("come", 0), *part]).receipt()
    assert read(written(receipt)) == receipt


@FEW
@given(steps, st.data())
def test_any_change_on_paper_is_noticed(part: list[tuple[str, int]], data: st.DataObject) -> None:
    """A digit elsewhere, a line less, a line twice."""
    text = written(played([("come", 0), *part]).receipt())
    lines = text.splitlines(keepends=True)
    number = data.draw(st.integers(1, len(lines) - 1))
    other = [*lines]
    match data.draw(st.sampled_from(["digit", "less", "twice", "header"])):
        case "digit":
            other[number] = other[number].replace("1", "7", 1)
        case "less":
            del other[number]
        case "twice":
            other.insert(number, lines[number])
        case _:
            other[0] = other[0].replace("default", "another")
    if other != lines:
        with pytest.raises(ReceiptChanged):
            read("".join(other))


def entry(place: int, what: str, name: str, ticket: int) -> Event:
    """One line of a trail."""
    return Event(
        id=f"{place}-0", what=what, at_ms=place, session_id=name, ticket=ticket, node_id=""
    )


def judged(*events: Event, line: dict[str, int] | None = None) -> list[Finding]:
    """Return what is wrong with a short trail."""
    window = Window(pool="default", since=events[0].id, until=events[-1].id)
    return findings(receipt_of(window, events, line or {}, line_read_after=events[-1].id))


def test_a_side_door_is_found() -> None:
    """Whoever steps on twice in a row didn't stand in line the second time."""
    assert judged(
        entry(1, "queued", "a", 1), entry(2, "assigned", "a", 1), entry(3, "assigned", "a", 1)
    ) == [Finding(rule=Rule.NO_SIDE_DOOR, session_id="a", at="3-0")]


def test_a_newcomer_with_a_lower_ticket_is_found() -> None:
    """Before anybody is admitted at all."""
    assert judged(
        entry(1, "queued", "a", 5), entry(2, "queued", "b", 4), line={"a": 5, "b": 4}
    ) == [Finding(rule=Rule.BEHIND_THE_LAST, session_id="a", by="b", at="2-0")]


def test_a_new_ticket_after_a_return_is_found() -> None:
    """It would send the session to the end of the line."""
    assert judged(
        entry(1, "queued", "a", 1),
        entry(2, "assigned", "a", 1),
        entry(3, "returned", "a", 9),
        line={"a": 9},
    ) == [Finding(rule=Rule.ONE_TICKET, session_id="a", at="3-0")]


def test_a_ticket_given_twice_is_found() -> None:
    """Two sessions would stand in the same place."""
    assert judged(
        entry(1, "queued", "a", 1), entry(2, "queued", "b", 1), line={"a": 1, "b": 1}
    ) == [Finding(rule=Rule.ONE_SESSION, session_id="b", at="2-0")]


def test_who_vanishes_is_found() -> None:
    """It came, it isn't in line, and no entry says how it left."""
    found = judged(entry(1, "queued", "a", 1), entry(2, "queued", "b", 2), line={"b": 2})
    assert found == [Finding(rule=Rule.NOBODY_VANISHES, session_id="a", at="1-0")]
    assert found[0].sentence() == "a at 1-0: nobody leaves the line without a word."


def test_an_overtaking_is_said_in_one_sentence() -> None:
    """Who, by whom, where, and which rule."""
    found = judged(
        entry(1, "queued", "a", 1),
        entry(2, "queued", "b", 2),
        entry(3, "assigned", "b", 2),
        line={"a": 1},
    )
    assert [finding.sentence() for finding in found] == [
        "a was overtaken by b at 3-0: whoever has the lowest ticket steps on first."
    ]


@pytest.mark.parametrize("text", ["", "x", "[]", '{"receipt": "other"}', "[" * 100_000])
def test_another_text_is_no_receipt(text: str) -> None:
    """It says so instead of finding nothing wrong."""
    with pytest.raises(StartupError, match="no receipt"):
        read(text)


_HEAD = {
    "receipt": "greenroom",
    "schema": 1,
    "pool": "p",
    "from": "1-0",
    "to": "9-0",
    "complete": True,
}
_WAIT = {
    "wait": "a",
    "ticket": 1,
    "from": "1-0",
    "until": None,
    "by": "queued",
    "left_by": "waiting",
}
_STEP = {"admission": "a", "ticket": 1, "at": "2-0", "node_id": "n", "epoch": 2}


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"from": 5}, _WAIT),
        ({"to": "late"}, _WAIT),
        ({}, {"wait": "a"}),
        ({}, {**_WAIT, "ticket": "1"}),
        ({}, {**_WAIT, "until": "soon"}),
        ({}, {**_STEP, "at": None}),
        ({}, {**_STEP, "ticket": None}),
    ],
)
def test_nonsense_whose_digest_fits_is_no_receipt(
    change: dict[str, object], row: dict[str, object]
) -> None:
    """Whoever wrote it, the check doesn't stumble."""
    header, line = {**_HEAD, **change}, json.dumps(row)
    digest = hashlib.sha256("\n".join((json.dumps(header), line)).encode()).hexdigest()
    text = "\n".join((json.dumps({**header, "digest": f"sha256:{digest}"}), line))
    with pytest.raises(StartupError, match="no receipt"):
        read(text)


def test_a_session_that_its_node_brings_back_waits_no_more() -> None:
    """Redis lost its admission and put it in line again; nobody overtakes it once it is adopted."""
    history = History()
    history.happen("queued", "a", 10)
    history.happen("adopted", "a", 10, node_id="n1")
    history.happen("queued", "b", 20)
    history.happen("assigned", "b", 20, node_id="n1")
    window = Window(pool="default", since="0-0", until=history.events[-1].id)
    receipt = receipt_of(window, history.events, {}, line_read_after=history.events[-1].id)
    assert findings(receipt) == []
    assert [wait.left_by for wait in receipt.waits] == ["adopted", "assigned"]
