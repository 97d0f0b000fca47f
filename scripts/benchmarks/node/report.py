"""How are the node's figures told, and which target do they meet?"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from scripts.benchmarks.node.bench_service import FPS, HEIGHT, WIDTH
from scripts.benchmarks.node.inside import Inside, Spread
from scripts.benchmarks.node.rooms import IN_PROCESS, RAW, Answers, Load

MOST_OF_RAW = 1.10
"""A room may cost this much of what the SDK alone costs."""
_BEGIN, _END = "<!-- node: begin -->", "<!-- node: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run."""

    machine: str
    idle_cores: float
    """What a node takes of a core while nobody plays."""
    loads: list[Load]
    answers: list[Answers]
    inside: Inside


def ratio(results: Results, rooms: int) -> float:
    """Return what a frame of a node costs by what it costs the SDK alone.

    Per frame, since on a busy machine the two don't come to the same frame rate.
    """
    frame = {one.way: one.cores / one.frames_per_s for one in results.loads if one.rooms == rooms}
    return frame[IN_PROCESS] / frame[RAW]


def missed(results: Results) -> list[int]:
    """Return the numbers of rooms at which the target was missed."""
    numbers = sorted({one.rooms for one in results.loads})
    return [rooms for rooms in numbers if ratio(results, rooms) > MOST_OF_RAW]


def markdown(results: Results) -> str:
    """Return all tables."""
    parts = [results.machine, _targets(results), _loads(results), _answers(results.answers)]
    return "\n\n".join([*parts, _inside(results.inside)])


def _targets(results: Results) -> str:
    rows = []
    for rooms in sorted({one.rooms for one in results.loads}):
        found = ratio(results, rooms)
        met = "met" if found <= MOST_OF_RAW else "MISSED"
        what = f"processor time per frame, {rooms} rooms, by the SDK's alone"
        rows.append((what, f"≤ {MOST_OF_RAW:.2f}", f"{found:.2f}", met))
    return _table(("target", "wanted", "found", ""), rows)


def _loads(results: Results) -> str:
    head = (
        f"{WIDTH} × {HEIGHT} at {FPS} fps",
        "rooms",
        "frames/s per room",
        "core per room",
        "ms per frame",
    )
    rows = [
        (
            one.way,
            str(one.rooms),
            f"{one.frames_per_s:.1f}",
            f"{one.cores:.1%}",
            f"{1000 * one.cores / one.frames_per_s:.2f}",
        )
        for one in results.loads
    ]
    rows.append(("a node without rooms", "0", "–", f"{results.idle_cores:.1%} in all", "–"))
    return _table(head, rows)


def _answers(answers: list[Answers]) -> str:
    rows = [(one.way, f"{one.median_ms:.0f} ms", f"{one.worst_ms:.0f} ms") for one in answers]
    return _table(("from key to picture, model takes no time", "median", "worst"), rows)


def _inside(inside: Inside) -> str:
    frames = [(way, f"{us:.0f} µs") for way, us in inside.frame_us.items()]
    frames.append(("one copy of it, the baseline", f"{inside.copy_us:.0f} µs"))
    waits = [
        ("the lease goes from one session to another", *_cells(inside.turn)),
        ("lag of the agent's loop, nothing going on", *_cells(inside.idle_lag)),
        *(
            (f"lag, a service busy in Python, {way}", *_cells(one))
            for way, one in inside.lag.items()
        ),
    ]
    return "\n\n".join((
        _table(("a frame of 832 × 480 from service to agent", "each"), frames),
        _table(("", "median", "99 %", "worst"), waits),
    ))  # fmt: skip


def _cells(spread: Spread) -> tuple[str, str, str]:
    return (
        f"{spread.median_ms:.1f} ms", f"{spread.p99_ms:.1f} ms", f"{spread.worst_ms:.1f} ms",
    )  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def put_in(readme: str, text: str) -> str:
    """Return the README with the last run's tables replaced."""
    before, rest = readme.split(_BEGIN, 1)
    return f"{before}{_BEGIN}\n\n{text}\n\n{_END}{rest.split(_END, 1)[1]}"


def machine() -> str:
    """Say when, on what and how busy: what a reader needs to compare two runs."""
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor = " ".join(found[1].split()) if found else platform.machine()
    load = os.getloadavg()[1]
    return (
        f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, livekit {version('livekit')}, Python"
        f" {platform.python_version()}, {os.cpu_count()} cores of {processor}; load average"
        f" {load:.1f} at the start{', so other work ran beside' if load > 0.5 else ''}."
    )
