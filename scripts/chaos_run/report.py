"""How is a chaos run told to a person and to a program?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from scripts.chaos_run.figures import Figures, percentiles_s
from scripts.chaos_run.play import Played

_COLUMNS = (
    ("seed", 6),
    ("trap", 38),
    ("sessions", 9),
    ("faults", 7),
    ("lost", 5),
    ("doubled", 8),
    ("overtaken", 10),
    ("leaked", 7),
    ("keys", 5),
    ("crowded", 8),
    ("unjust", 7),
    ("untrue", 7),
    ("other", 6),
    ("readmitted p50/p99", 20),
    ("slot idle p50/p99", 19),
    ("s", 6),
)
MOST_SHOWN = 5


def header() -> str:
    """Return the head of the table."""
    return "".join(f"{name:>{width}}" for name, width in _COLUMNS)


def row(played: Played) -> str:
    """Return one seed's line."""
    found = played.verdict
    return _line(
        played.plan.seed,
        played.plan.trap,
        played.sessions,
        len(played.done),
        *(len(told) for told in found.as_dict().values()),
        _pair(played.figures.readmitted_ms),
        _pair(played.figures.slot_idle_ms),
        f"{played.seconds:.0f}",
    )


def total(played: Sequence[Played]) -> str:
    """Return the line of several seeds together."""
    together = sum_up(played)
    kinds = [one.verdict.as_dict() for one in played]
    return _line(
        "",
        f"{len(played)} seeds",
        sum(one.sessions for one in played),
        sum(len(one.done) for one in played),
        *(sum(len(kind[name]) for kind in kinds) for name in (kinds[0] if kinds else {})),
        _pair(together.readmitted_ms),
        _pair(together.slot_idle_ms),
        f"{sum(one.seconds for one in played):.0f}",
    )


def findings(played: Played) -> Iterator[str]:
    """Yield what is wrong with a seed, and how to play it again."""
    for kind, told in played.verdict.as_dict().items():
        for sentence in told[:MOST_SHOWN]:
            yield f"  seed {played.plan.seed}, {kind}: {sentence}"
        if len(told) > MOST_SHOWN:
            yield f"  seed {played.plan.seed}, {kind}: and {len(told) - MOST_SHOWN} more"
    yield f"  again: scripts/chaos --first-seed {played.plan.seed} --seeds 1"


def summary(played: Sequence[Played]) -> Iterator[str]:
    """Yield the figures of the whole run, one line each."""
    figures = sum_up(played)
    for name, values in (
        ("node killed → its session in line again", figures.readmitted_ms),
        ("node killed → its session has a slot again", figures.placed_again_ms),
        ("slot free → its next user has it", figures.slot_idle_ms),
        ("one user ends → the next one plays", figures.changeover_ms),
    ):
        share = percentiles_s(values)
        if share is not None:
            yield f"{name}: p50 {share['p50']} s, p99 {share['p99']} s ({share['count']} times)"
    for name, counts in (
        ("ends", figures.endings),
        ("returns to the line", figures.returns),
        ("of these without a cause", figures.unprovoked),
    ):
        yield f"{name}: " + ", ".join(f"{why} {count}" for why, count in counts.most_common())


def as_dict(played: Played) -> dict[str, object]:
    """Return one seed as JSON takes it: plan, what happened, verdict, figures."""
    return {
        "seed": played.plan.seed,
        "plan": played.plan.as_dict(),
        "faults": [asdict(fault) for fault in played.done],
        "holds": played.verdict.holds,
        "findings": played.verdict.as_dict(),
        "figures": played.figures.as_dict(),
        "sessions": played.sessions,
        "frames": played.frames,
        "guests": [
            {"name": visit.guest.name, "sessions": visit.accepted, "end": visit.end}
            for visit in played.visits
        ],
        "events": [event.as_dict() for event in played.events],
        "seconds": played.seconds,
    }


def sum_up(played: Iterable[Played]) -> Figures:
    """Return the figures of several seeds together."""
    together = Figures()
    for one in played:
        together.add(one.figures)
    return together


def _line(*values: object) -> str:
    cells = zip(_COLUMNS, values, strict=True)
    return "".join(f"{value!s:>{width}}" for (_, width), value in cells)


def _pair(values_ms: Sequence[int]) -> str:
    share = percentiles_s(values_ms)
    return f"{share['p50']:.2f}/{share['p99']:.2f} s" if share is not None else "–"
