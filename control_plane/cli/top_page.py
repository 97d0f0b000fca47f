"""What stands on the page of ``greenroom top``? Pure.

One look at the pool, and how things went since an earlier look: counts and durations are totals
since the registry began, so what happened in between is their difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from control_plane.cli import rows
from control_plane.cli.tables import Cell, Column, drawn, finely
from control_plane.cli.words import Tone
from control_plane.numbers import PoolNumbers, as_json, spread
from control_plane.operator_words import people, spell
from shared.durations import Histogram, quantile_s, since
from shared.facts import PoolFacts
from shared.states import NodeState

_NODE_WORDS = {
    NodeState.BUSY: (Tone.LIVE, "serves", "serve"),
    NodeState.IDLE: (Tone.LIVE, "is idle", "are idle"),
    NodeState.LOADING: (Tone.STARTING, "is loading", "are loading"),
    NodeState.ERROR: (Tone.ATTENTION, "is in error", "are in error"),
}
_DURATIONS = (
    ("queue_wait", "in line until the first slot"),
    ("first_frame", "from a slot to the first frame"),
    ("slot_idle", "a slot empty between two users"),
    ("kill_to_first_frame", "kill to first frame"),
    ("recovery", "recovery, whatever the cause"),
    ("readmission_wait", "in line after a return"),
)
_COUNTS = ("came", "got a slot", "ended", "failed", "went back to the line", "nodes died")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen at one moment."""

    at_s: float
    """By any clock that doesn't step."""
    numbers: PoolNumbers
    facts: PoolFacts
    """The nodes that are shown, and the time of the registry."""
    more_nodes: int = 0
    """Live ones that aren't shown."""


def page(now: Look, before: Look | None, *, coloured: bool = False) -> Iterator[str]:
    """Yield the page line by line; *before* is the look that lately is counted from."""
    yield from _heads(now)
    yield ""
    yield from drawn(_count_columns(now, before), _count_rows(now, before), coloured=coloured)
    yield ""
    yield from drawn(
        _duration_columns(now, before), list(_duration_rows(now, before)), coloured=coloured
    )
    if now.facts.nodes:
        yield ""
        nodes = [rows.top_row(now.facts, node) for node in now.facts.nodes]
        yield from drawn(rows.TOP_COLUMNS, nodes, coloured=coloured)
    if now.more_nodes:
        yield f"… and {now.more_nodes} more nodes (--limit shows them)"


def page_json(now: Look, before: Look | None) -> dict[str, object]:
    """Return the same for programs; names stay, new ones may come."""
    lately = None
    if before is not None:
        lately = {
            "seconds": round(now.at_s - before.at_s, 3),
            "counts": dict(zip(_COUNT_KEYS, _differences(now, before), strict=True)),
            "durations_s": {
                name: spread(since(before.numbers.durations[name], counted))
                for name, counted in now.numbers.durations.items()
            },
        }
    nodes = [rows.node_json(now.facts, node) for node in now.facts.nodes]
    return {**as_json(now.numbers), "lately": lately, "node_list": nodes}


_COUNT_KEYS = ("opened", "assigned", "ended", "failed", "returned", "nodes_died")


def _heads(now: Look) -> Iterator[str]:
    numbers = now.numbers
    waiting = people(numbers.waiting, "waits", "wait")
    since_when = f", the first for {spell(numbers.longest_wait_s)}" if numbers.waiting else ""
    yield f"Pool {numbers.pool}: {waiting}{since_when}; {numbers.on_stage} on stage"
    slots = f"{numbers.used} of {numbers.slots} slots taken"
    if numbers.quarantined:
        slots += f", {Tone.ATTENTION} {numbers.quarantined} not confirmed as empty"
    states = [
        f"{tone} {people(count, one, many)}"
        for state, (tone, one, many) in _NODE_WORDS.items()
        if (count := numbers.nodes[state])
    ]
    yield f"{slots}; nodes: {', '.join(states) or 'none'}"


def _counts(numbers: PoolNumbers) -> tuple[int, ...]:
    return (
        numbers.opened,
        numbers.assigned,
        numbers.ended_total,
        numbers.failed_total,
        numbers.returned,
        numbers.nodes_died,
    )


def _differences(now: Look, before: Look) -> tuple[int, ...]:
    """What was counted in between; all of it if the registry began anew."""
    pairs = zip(_counts(now.numbers), _counts(before.numbers), strict=True)
    return tuple(total - earlier if total >= earlier else total for total, earlier in pairs)


def _lately(now: Look, before: Look | None) -> str:
    return "" if before is None else f"LAST {spell(now.at_s - before.at_s)}".upper()


def _count_columns(now: Look, before: Look | None) -> tuple[Column, ...]:
    return (
        Column(title="SESSIONS"),
        Column(title=_lately(now, before), numeric=True),
        Column(title="IN ALL", numeric=True),
    )


def _count_rows(now: Look, before: Look | None) -> list[list[Cell]]:
    totals = _counts(now.numbers)
    lately: tuple[object, ...] = ("",) * len(totals)
    if before is not None:
        lately = _differences(now, before)
    return [
        [Cell(name), Cell(str(recent)), Cell(str(total))]
        for name, recent, total in zip(_COUNTS, lately, totals, strict=True)
    ]


def _duration_columns(now: Look, before: Look | None) -> tuple[Column, ...]:
    lately = _lately(now, before)
    return (
        Column(title="HOW LONG"),
        Column(title=lately, numeric=True),
        Column(title="MEDIAN" if lately else "", numeric=True),
        Column(title="95 %" if lately else "", numeric=True),
        Column(title="IN ALL", numeric=True),
        Column(title="MEDIAN", numeric=True),
        Column(title="95 %", numeric=True),
    )


def _duration_rows(now: Look, before: Look | None) -> Iterator[list[Cell]]:
    for name, words in _DURATIONS:
        counted = now.numbers.durations[name]
        lately = [Cell("")] * 3
        if before is not None:
            lately = _three(since(before.numbers.durations[name], counted))
        yield [Cell(words), *lately, *_three(counted)]


def _three(counted: Histogram) -> list[Cell]:
    quantiles = (quantile_s(counted, share) for share in (0.5, 0.95))
    return [
        Cell(str(counted.count)),
        *(Cell("–" if seconds is None else finely(seconds)) for seconds in quantiles),
    ]
