"""How does a table fit a terminal, and how is a duration said? Pure.

At most 100 columns. Columns that name things are never cut, since people copy from them; the last
one that may be cut is. Colour comes on top of words and shapes, and only where a person looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import typer

from control_plane.operator_words import spell

WIDTH = 100
_GAP = "  "
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table; *colour* is one of typer's, None for plain text."""

    text: str
    colour: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its title, and what may be done to it."""

    title: str
    numeric: bool = False
    """Set to the right."""
    may_shrink: bool = False


def finely(seconds: float) -> str:
    """Return a short duration with tenths: "0.4 s"; longer ones as `spell` does."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else spell(seconds)


def clock(at_ms: int) -> str:
    """Return a moment as the clock on this machine's wall shows it."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().strftime("%H:%M:%S")


def drawn(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, coloured: bool = False
) -> Iterator[str]:
    """Yield a table line by line; columns without any content are left out."""
    kept = [i for i in range(len(columns)) if not rows or any(row[i].text for row in rows)]
    columns = [columns[i] for i in kept]
    rows = [[row[i] for i in kept] for row in rows]
    widths = [
        max([len(column.title), *(len(row[i].text) for row in rows)])
        for i, column in enumerate(columns)
    ]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - WIDTH
    for i in reversed(range(len(columns))):
        if over > 0 and columns[i].may_shrink:
            given = min(over, widths[i] - min(widths[i], max(len(columns[i].title), 4)))
            widths[i] -= given
            over -= given
    yield _line(columns, [Cell(column.title) for column in columns], widths, coloured=False)
    for row in rows:
        yield _line(columns, row, widths, coloured=coloured)


def _line(
    columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], *, coloured: bool
) -> str:
    parts = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        text = cell.text if len(cell.text) <= width else cell.text[: width - 1] + _CUT
        padded = text.rjust(width) if column.numeric else text.ljust(width)
        parts.append(typer.style(padded, fg=cell.colour) if coloured and cell.colour else padded)
    return _GAP.join(parts).rstrip()


def hanging(head: str, text: str) -> Iterator[str]:
    """Yield *text* behind *head*; further lines are set in as far, what can't be broken stays."""
    line, indent = head, " " * len(head)
    is_begun = False
    for word in text.split():
        if is_begun and len(line) + 1 + len(word) > WIDTH:
            yield line
            line, is_begun = indent, False
        line += f" {word}" if is_begun else word
        is_begun = True
    yield line.rstrip()
