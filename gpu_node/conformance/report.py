"""How does a model engineer read what was found? Pure.

One line a check, with a shape and a word; under a failure what was seen and what to do. At most a
hundred columns wide. The JSON is for programs: names stay, new ones may come.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from gpu_node.conformance.results import Outcome, Result

WIDTH = 100
_INDENT = " " * 11
_SIGNS = {
    Outcome.PASSED: ("●", "passed", "32"),
    Outcome.REMARKED: ("●", "remark", "33"),
    Outcome.FAILED: ("▲", "failed", "31"),
    Outcome.SKIPPED: ("○", "skipped", "2"),
    Outcome.NOT_RUN: ("○", "not run", "2"),
}
_IN_WORDS = {
    Outcome.PASSED: "passed",
    Outcome.REMARKED: "passed with a remark",
    Outcome.FAILED: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.NOT_RUN: "not run",
}


def lines_of(result: Result, *, coloured: bool) -> list[str]:
    """Return one check as it is shown."""
    shape, word, colour = _SIGNS[result.outcome]
    sign = f"{shape} {word:<8}"
    if coloured:
        sign = f"\x1b[{colour}m{sign}\x1b[0m"
    aside = result.text if result.outcome is not Outcome.FAILED else ""
    title = f"{result.title}: {aside}" if aside else result.title
    told = textwrap.wrap(title, WIDTH - len(_INDENT)) or [""]
    lines = [f"{sign} {told[0]}", *(_INDENT + line for line in told[1:])]
    if result.outcome is Outcome.FAILED:
        lines += _indented(result.text)
        lines += _indented(result.where)
        lines += _indented(f"Try: {result.advice}" if result.advice else "")
    elif result.outcome is Outcome.REMARKED:
        lines += _indented(result.advice)
    return lines


def summary_of(results: Sequence[Result], seconds: float) -> str:
    """Return how many checks ended how."""
    counts = Counter(result.outcome for result in results)
    told = [f"{counts[outcome]} {_IN_WORDS[outcome]}" for outcome in Outcome if counts[outcome]]
    return f"{', '.join(told)}; {seconds:.0f} s."


def has_failed(results: Iterable[Result]) -> bool:
    """Whether the service breaks the contract."""
    return any(result.outcome is Outcome.FAILED for result in results)


def json_of(file: str, results: Sequence[Result], seconds: float) -> dict[str, object]:
    """Return all of it for programs."""
    return {
        "file": file,
        "passed": not has_failed(results),
        "seconds": round(seconds, 1),
        "checks": [asdict(result) for result in results],
    }


def _indented(text: str) -> list[str]:
    return [_INDENT + line for line in textwrap.wrap(text, WIDTH - len(_INDENT))]
