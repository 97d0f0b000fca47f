"""How are the bench's figures told, and which targets do they meet?"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from scripts.benchmarks.registry.callers import Pair
from scripts.benchmarks.registry.fleet import LARGEST_NODE, NODES, RESIDENTS_EACH, Evacuation, Fleet
from scripts.benchmarks.registry.fleet import WAITING as FLEET_WAITING
from scripts.benchmarks.registry.lifecycles import Memory
from scripts.benchmarks.registry.server_cost import Client, Cost
from scripts.benchmarks.registry.waiting import Waiting

_LONG = 10_000
_LEFT_OVER_BYTES = 64 * 1024
"""What two looks at a server at rest may differ by."""
_BEGIN, _END = "<!-- registry: begin -->", "<!-- registry: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run."""

    machine: str
    waiting: Waiting
    fleet: Fleet
    evacuation: Evacuation
    memory: Memory
    callers: list[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the design's list."""

    what: str
    wanted: str
    found: str
    is_met: bool


def targets(results: Results) -> list[Target]:
    """Return the design's targets and how they came out."""
    return [*_waiting_targets(results.waiting), *_other_targets(results)]


def _waiting_targets(found: Waiting) -> Iterator[Target]:
    for call in ("open", "cancel", "position (touch)"):
        if _LONG in found.costs[call]:
            ratio = found.worst_ratio(call, _LONG)
            yield Target(
                what=f"{call} with {_LONG:,} waiting, by its cost with none",
                wanted="≤ 2.0",
                found=f"{ratio:.2f}",
                is_met=ratio <= 2,
            )


def _other_targets(results: Results) -> Iterator[Target]:
    share, memory = results.fleet.share, results.memory
    yield Target(
        what=f"beats and sweeps of {NODES:,} nodes, share of a core",
        wanted="< 15 %",
        found=f"{share:.1%}",
        is_met=share < 0.15,
    )
    left = memory.after_bytes - memory.before_bytes
    yield Target(
        what=f"memory left over by {memory.lifecycles:,} lifecycles",
        wanted=f"≤ {_LEFT_OVER_BYTES // 1024} KiB",
        found=f"{left / 1024:+.1f} KiB, {memory.after_keys - memory.before_keys:+} keys",
        is_met=left <= _LEFT_OVER_BYTES and memory.after_keys <= memory.before_keys,
    )
    script = results.callers[1]
    yield Target(
        what="a replica's script calls over the shared connection, by redis-py's pool",
        wanted="≥ 3.0",
        found=f"{script.ratio:.1f}",
        is_met=script.ratio >= 3,
    )


def markdown(results: Results) -> str:
    """Return all tables."""
    sections = (
        results.machine,
        _table(
            ("target", "wanted", "found", ""),
            [
                (t.what, t.wanted, t.found, "met" if t.is_met else "MISSED")
                for t in targets(results)
            ],
        ),
        _waiting(results.waiting),
        _fleet(results),
        _memory(results.memory),
        _callers(results.callers),
    )
    return "\n\n".join(sections)


def _waiting(found: Waiting) -> str:
    lengths = sorted(found.costs["open"])
    rows = []
    for call, by_length in found.costs.items():
        cells = [_cost_cell(by_length[n].us) if n in by_length else "–" for n in lengths]
        last = by_length[max(by_length)]
        ratio = f"{last.us / by_length[0].us:.2f}" if 0 in by_length else "–"
        rows.append((call, *cells, ratio, f"{last.inner:.0f}"))
    opened = found.costs["open"]
    per_s = ", ".join(f"{opened[length].per_s:,.0f} ({length:,})" for length in lengths)
    at_once = found.at_once
    told = f"Opens per second, one client, pipelined (by waiting): {per_s}."
    if at_once is not None:
        told += (
            f" An opening that is given a slot at once: {at_once.us:.0f} µs,"
            f" {at_once.inner:.0f} commands, {at_once.per_s:,.0f} per second."
        )
    head = (
        "server µs per call",
        *(f"{n:,} waiting" for n in lengths),
        "last : 0",
        "inner commands",
    )
    return f"{_table(head, rows)}\n\n{told}"


def _cost_cell(us: float) -> str:
    return f"{us:.1f}" if us < 100 else f"{us:,.0f}"


def _fleet(results: Results) -> str:
    fleet, dead = results.fleet, results.evacuation
    rows = [
        ("server, share of one core", f"{fleet.share:.1%}"),
        ("the same server with nobody calling", f"{fleet.idle_share:.1%}"),
        ("the same server with as many PINGs", f"{fleet.ping_share:.1%}"),
        ("calls per second, each in a packet of its own", f"{fleet.calls_per_s:.0f}"),
        ("one beat without news, pipelined", _cost(fleet.quiet_beat)),
        ("one beat with news, pipelined", _cost(fleet.beat_with_news)),
        ("one sweep, nothing due, pipelined", _cost(fleet.sweep)),
        ("one look at the line, once a second at most", _cost(fleet.look_at_line)),
        ("one count of the pool, for a scrape", _cost(fleet.snapshot)),
        (
            f"a node with {LARGEST_NODE} residents dies: the longest of its sweep calls",
            f"{dead.sweep_ms:.1f} ms",
        ),
        (f"a node with {LARGEST_NODE} residents retires", f"{dead.goodbye_ms:.1f} ms"),
    ]
    what = f"{NODES:,} nodes, {NODES * RESIDENTS_EACH:,} residents, {FLEET_WAITING:,} waiting"
    return _table((what, ""), rows)


def _cost(cost: Cost) -> str:
    return f"{cost.us:,.0f} µs, {cost.inner:,.0f} commands"


def _memory(memory: Memory) -> str:
    rows = [
        ("before", f"{memory.before_bytes / 1024:,.0f} KiB, {memory.before_keys} keys"),
        ("after", f"{memory.after_bytes / 1024:,.0f} KiB, {memory.after_keys} keys"),
        ("an ended session while it can be read", f"{memory.retained_bytes:,} bytes"),
        ("lifecycles per second, one client, pipelined", f"{memory.per_s:,.0f}"),
    ]
    return _table((f"{memory.lifecycles:,} lifecycles", ""), rows)


def _callers(pairs: Sequence[Pair]) -> str:
    rows = [
        (
            pair.call,
            f"{pair.pool.per_s:,.0f}",
            f"{pair.shared.per_s:,.0f}",
            f"{pair.ratio:.1f}",
            f"{pair.pool.cpu_us:.0f}",
            f"{pair.shared.cpu_us:.0f}",
        )
        for pair in pairs
    ]
    head = (
        "calls of one replica",
        "pool, per s",
        "shared, per s",
        "×",
        "pool, CPU µs",
        "shared, CPU µs",
    )
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def put_in(readme: str, text: str) -> str:
    """Return the README with the last run's tables replaced."""
    before, rest = readme.split(_BEGIN, 1)
    return f"{before}{_BEGIN}\n\n{text}\n\n{_END}{rest.split(_END, 1)[1]}"


def machine(client: Client) -> str:
    """Say when, on what and how busy: what a reader needs to compare two runs."""
    server = client.info("server")
    name = "Valkey" if "valkey_version" in server else "Redis"
    version = server.get("valkey_version", server["redis_version"])
    cores, load = os.cpu_count() or 1, os.getloadavg()[1]
    return (
        f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, {name} {version} (append-only file, everysec, Unix"
        f" socket), Python {platform.python_version()}, redis-py {redis.__version__}, {cores} cores"
        f" of {_processor()}; load average {load:.1f} at the start"
        f"{', so other work ran beside' if load > 0.5 else ''}."
    )


def _processor() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return " ".join(found[1].split()) if found else platform.machine()
