"""What is known about one check of a service, and how does it cross from the child? Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    REMARKED = "remarked"
    """It passed, and there's something to be said."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It doesn't apply to this service."""
    NOT_RUN = "not_run"
    """Something before it failed, without which it can't be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check and how it ended."""

    check: str
    """Stable, for programs."""
    title: str
    outcome: Outcome
    text: str = ""
    """What was seen."""
    advice: str = ""
    """What to do about it."""
    where: str = ""
    """Where in the service's own code it happened, or what it wrote last."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A check begins; if nothing comes within its time, the service hangs in it."""

    check: str
    within_s: float


def encoded(message: Result | Begun) -> bytes:
    """Return one line."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decoded(line: bytes) -> Result | Begun:
    """Return what `encoded` was given."""
    fields = json.loads(line)
    if fields.pop("kind") == "Begun":
        return Begun(**fields)
    return Result(**{**fields, "outcome": Outcome(fields["outcome"])})
