"""Does this file look like a service that somebody meant to run here?

Read and parsed, never run. It finds mistakes: code that a node has no business with, slips against
the contract that would show only at the first session. It stops nobody who means harm; whoever may
choose a node's file may run code there. Three levels: ``none`` doesn't look, ``basic`` refuses what
is hardly ever meant, ``strict`` refuses whatever was found. See `findings` for the rules.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpu_node.services.findings import Finding, findings_in
from shared.errors import ServiceLoadFailed
from shared.lifecycle import describe

LIMIT_BYTES = 1024 * 1024
_MOST_TOLD = 5


class Level(StrEnum):
    """How strictly a file is judged."""

    NONE = "none"
    BASIC = "basic"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was found in a file."""

    path: Path
    refused: tuple[Finding, ...] = ()
    """For these the file isn't loaded."""
    remarks: tuple[Finding, ...] = ()

    @property
    def sentence(self) -> str:
        """Why the file isn't loaded, and what to do."""
        told = [finding.told for finding in self.refused[:_MOST_TOLD]]
        if len(self.refused) > _MOST_TOLD:
            told.append(f"and {len(self.refused) - _MOST_TOLD} more")
        sentence = f"{self.path.name} isn't loaded: {'; '.join(told)}."
        if not self.can_run:
            return sentence
        return f"{sentence} If it is meant as it stands, --skip-validation loads it all the same."

    @property
    def can_run(self) -> bool:
        """Whether Python could run it at all: then it is the operator's choice."""
        return not any(one.fatal for one in self.refused)


def judge(path: Path, level: Level) -> Judged:
    """Look at *path* and say what is wrong with it."""
    if level is Level.NONE:
        return Judged(path=path)
    found = look_at(path)
    refused = tuple(one for one in found if one.refused_by_basic or level is Level.STRICT)
    return Judged(
        path=path, refused=refused, remarks=tuple(one for one in found if one not in refused)
    )


def validated(path: Path, level: Level) -> tuple[Finding, ...]:
    """Return the remarks about *path*; raises `ServiceLoadFailed` if it is refused."""
    judged = judge(path, level)
    if judged.refused:
        raise ServiceLoadFailed(judged.sentence)
    return judged.remarks


def look_at(path: Path) -> tuple[Finding, ...]:
    """Return all that is to be said about a file, in the order of its lines."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        return (_fatal(0, f"it can't be read: {error.strerror}"),)
    if len(raw) > LIMIT_BYTES:
        size = f"{len(raw) / LIMIT_BYTES:.1f} MB"
        return (_refused(0, f"it has {size}, 1 MB is the limit: keep data in files of their own"),)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return (_refused(line, "isn't UTF-8: save the file in that encoding"),)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        subject = "" if error.lineno else "it "
        return (_fatal(error.lineno or 0, f"{subject}isn't Python: {error.msg}"),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (_fatal(0, f"it can't be parsed: {describe(error)}"),)
    return tuple(sorted(findings_in(tree), key=lambda finding: finding.line))


def _refused(line: int, text: str) -> Finding:
    return Finding(line=line, text=text, refused_by_basic=True)


def _fatal(line: int, text: str) -> Finding:
    return Finding(line=line, text=text, refused_by_basic=True, fatal=True)
