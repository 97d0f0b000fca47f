"""What does a replica's HTTP side cost, beside a framework's bare POST?

``scripts/bench api [--rounds N] [--record]`` starts a Redis and servers of its own, measures, and
prints tables. Exit status 1 if a target of the design is missed. ``--record`` also writes the
tables into ``scripts/benchmarks/README.md``, with date, versions and machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvloop

from scripts.benchmarks.api import create, report, scrape, streams
from scripts.benchmarks.api.report import Results

_README = Path(__file__).resolve().parents[1] / "README.md"


async def run(wanted: argparse.Namespace) -> int:
    """Measure all; returns the exit status."""
    machine = report.machine()
    _note(f"create calls, {wanted.rounds} rounds")
    calls = await create.measure(wanted.rounds, wanted.seconds)
    _note(f"{wanted.clients} clients that follow")
    followed = await streams.measure(wanted.clients, 10 * wanted.seconds, wanted.changes)
    _note(f"scrapes with {wanted.sessions} sessions")
    scraped = await scrape.measure(wanted.sessions, wanted.changes)
    results = Results(machine=machine, create=calls, streams=followed, scrape=scraped)
    text = report.markdown(results)
    print(text)
    if wanted.record:
        _README.write_text(report.put_in(_README.read_text(encoding="utf-8"), text), "utf-8")
    return 0 if all(target.is_met for target in report.targets(results)) else 1


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="scripts/bench api", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="pairs of rounds, bare and ours")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a round takes")
    parser.add_argument("--clients", type=int, default=1_000, help="how many follow at once")
    parser.add_argument("--changes", type=int, default=10, help="how often the line moves")
    parser.add_argument("--sessions", type=int, default=10_000, help="how many while scraped")
    parser.add_argument("--record", action="store_true", help="write the tables into the README")
    return uvloop.run(run(parser.parse_args()))


def _note(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
