"""How is a rolling restart told to a person and to a program?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scripts.chaos_run.rolling.visitors import Tally

MOST_SHOWN = 5
_COLUMNS = (
    ("restarted", 16),
    ("requests", 10),
    ("failed", 8),
    ("lost sessions", 15),
    ("streams resumed", 17),
    ("untold events", 15),
    ("ended in", 10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the visitors met with while one replica was away and came back."""

    name: str
    tally: Tally
    ended_in_s: float | None = None
    """From the signal until the process was gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """A whole run."""

    steps: tuple[Step, ...]
    whole: Tally
    surprises: tuple[str, ...]
    """What processes did that nobody told them to: errors in their logs, wrong ends."""

    @property
    def holds(self) -> bool:
        """Nothing failed, nothing was lost, and there was something to lose."""
        found = (self.whole.failed, self.whole.lost, self.whole.untold, self.surprises)
        return not any(found) and self.whole.sessions > 0 and self.whole.resumed > 0


def told(rolled: Rolled, *, as_json: bool) -> list[str]:
    """Return the lines for a person, or one line of JSON."""
    return [json.dumps(as_dict(rolled))] if as_json else [*table(rolled), *findings(rolled)]


def table(rolled: Rolled) -> Iterator[str]:
    """Yield the table's lines."""
    yield _line(*(name for name, _ in _COLUMNS))
    for step in rolled.steps:
        took = "–" if step.ended_in_s is None else f"{step.ended_in_s:.1f} s"
        yield _row(step.name, step.tally, took)
    yield _row(f"{rolled.whole.sessions} sessions", rolled.whole, "")


def findings(rolled: Rolled) -> Iterator[str]:
    """Yield what is wrong, a few of each kind."""
    whole = rolled.whole
    for kind, told in (
        ("failed", whole.failed),
        ("lost", whole.lost),
        ("untold", whole.untold),
        ("other", rolled.surprises),
    ):
        yield from (f"  {kind}: {sentence}" for sentence in told[:MOST_SHOWN])
        if len(told) > MOST_SHOWN:
            yield f"  {kind}: and {len(told) - MOST_SHOWN} more"


def as_dict(rolled: Rolled) -> dict[str, object]:
    """Return the run as JSON takes it."""
    return {
        "holds": rolled.holds,
        "steps": [
            {"restarted": step.name, "ended_in_s": step.ended_in_s, **_numbers(step.tally)}
            for step in rolled.steps
        ],
        **_numbers(rolled.whole),
        "findings": list(findings(rolled)),
    }


def _numbers(tally: Tally) -> dict[str, int]:
    return {
        "requests": tally.requests,
        "sessions": tally.sessions,
        "failed": len(tally.failed),
        "lost": len(tally.lost),
        "resumed": tally.resumed,
        "untold": len(tally.untold),
    }


def _row(name: str, tally: Tally, took: str) -> str:
    counts: Sequence[object] = (
        tally.requests,
        len(tally.failed),
        len(tally.lost),
        tally.resumed,
        len(tally.untold),
    )
    return _line(name, *counts, took)


def _line(*values: object) -> str:
    cells = zip(_COLUMNS, values, strict=True)
    return "".join(f"{value!s:>{width}}" for (_, width), value in cells)
