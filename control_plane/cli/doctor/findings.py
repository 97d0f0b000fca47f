"""What did a look find, and what should be done about it? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    """As it should be."""
    NOTE = "note"
    """Nothing is wrong, and somebody may want to know."""
    WRONG = "wrong"
    """Something doesn't work, or won't when it matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    area: str
    level: Level
    text: str
    """One sentence, or a few words for what is fine."""
    try_: str = ""
    """What to do about it."""


def fine(area: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(area=area, level=Level.FINE, text=text)


def note(area: str, text: str, try_: str = "") -> Finding:
    """Nothing is wrong with it."""
    return Finding(area=area, level=Level.NOTE, text=text, try_=try_)


def wrong(area: str, text: str, try_: str) -> Finding:
    """It must be put right, and *try_* says how."""
    return Finding(area=area, level=Level.WRONG, text=text, try_=try_)
