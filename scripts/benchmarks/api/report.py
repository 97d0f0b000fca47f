"""How are the figures of a replica's HTTP side told, and which targets do they meet?"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from scripts.benchmarks.api.create import Create
from scripts.benchmarks.api.load import CONNECTIONS
from scripts.benchmarks.api.scrape import Scrape
from scripts.benchmarks.api.streams import Streams

_BEGIN, _END = "<!-- api: begin -->", "<!-- api: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run."""

    machine: str
    create: Create
    streams: Streams
    scrape: Scrape


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One of the design's, and what was found."""

    what: str
    wanted: str
    found: str
    is_met: bool


def targets(results: Results) -> Iterator[Target]:
    """Yield each target."""
    create, streams, scrape = results.create, results.streams, results.scrape
    yield Target(
        what="create calls, admitted, for the processor time of bare POSTs",
        wanted="≥ 0.70",
        found=f"{create.cost_ratio:.2f}",
        is_met=create.cost_ratio >= 0.70,
    )
    yield Target(
        what="99 % of them are answered within, by the bare ones",
        wanted="≤ 3.0",
        found=f"{create.p99_ratio:.1f}",
        is_met=create.p99_ratio <= 3,
    )
    yield Target(
        what=f"{streams.clients:,} clients that follow and wait, share of a core at rest",
        wanted="< 20 %",
        found=f"{streams.replica_share:.1%}",
        is_met=streams.replica_share < 0.20,
    )
    yield Target(
        what="the last of them knows its new place after",
        wanted="≤ 1 s",
        found=f"{streams.worst_s:.2f} s",
        is_met=streams.worst_s <= 1,
    )
    yield Target(
        what=f"a scrape with {scrape.sessions:,} sessions",
        wanted="< 50 ms",
        found=f"{scrape.worst_ms:.0f} ms",
        is_met=scrape.worst_ms < 50,
    )


def markdown(results: Results) -> str:
    """Return all tables."""
    rows = [
        (one.what, one.wanted, one.found, "met" if one.is_met else "MISSED")
        for one in targets(results)
    ]
    parts = (
        results.machine,
        _table(("target", "wanted", "found", ""), rows),
        _create(results.create),
        _table(("", ""), list(_rest(results))),
    )
    return "\n\n".join(parts)


def _create(found: Create) -> str:
    head = (f"{CONNECTIONS} at once, median of {found.rounds} rounds", "bare", "ours", "ratio")
    bare, ours = found.bare, found.ours
    return _table(
        head,
        [
            (
                "processor time of the server for one", f"{bare.cpu_us:.0f} µs",
                f"{ours.cpu_us:.0f} µs", f"{found.cost_ratio:.2f}",
            ),
            (
                "99 % answered within", f"{bare.p99_ms:.1f} ms", f"{ours.p99_ms:.1f} ms",
                f"{found.p99_ratio:.2f}",
            ),
            (
                "per second, Redis and client on the other core", f"{bare.per_s:,.0f}",
                f"{ours.per_s:,.0f}", f"{found.rate_ratio:.2f}",
            ),
            ("processor time of Redis for one", "–", f"{found.redis_us:.0f} µs", "–"),
        ],
    )  # fmt: skip


def _rest(results: Results) -> Iterator[tuple[str, str]]:
    streams, scrape = results.streams, results.scrape
    yield (
        f"{streams.clients:,} clients at rest, replica and Redis",
        f"{streams.replica_share:.1%} and {streams.redis_share:.1%} of a core",
    )
    yield (
        "a change until the last of them knows, median and worst",
        f"{streams.median_s:.2f} s and {streams.worst_s:.2f} s",
    )
    yield (
        f"a scrape with {scrape.nodes} nodes ({scrape.kib:.0f} KiB), median and worst",
        f"{scrape.median_ms:.0f} ms and {scrape.worst_ms:.0f} ms",
    )


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
    names = ("fastapi", "starlette", "uvicorn", "uvloop", "pydantic", "redis")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    load = os.getloadavg()[1]
    return (
        f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, {versions}, Python {platform.python_version()},"
        f" {os.cpu_count()} cores of {processor}; load average {load:.1f} at the start"
        f"{', so other work ran beside' if load > 0.5 else ''}."
    )
