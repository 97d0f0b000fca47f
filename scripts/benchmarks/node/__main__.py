"""What does a node cost, beside the media SDK alone?

``scripts/bench node [--rooms 1,4,10] [--seconds S] [--record]`` starts a media server and a Redis
of its own, plays the same pictures through a node and through the SDK alone, and measures what is
inside of a node without rooms. Exit status 1 if the target is missed. ``--record`` writes the
tables into ``scripts/benchmarks/README.md``, with date, versions and machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from scripts.benchmarks.node import inside, report
from scripts.benchmarks.node.report import Results
from scripts.benchmarks.node.rooms import IN_PROCESS, PROCESS, RAW, Stage
from shared.store import Registry
from tests.support.livekit_server import running_livekit
from tests.support.redis_server import FLAVOURS, RedisServer

_README = Path(__file__).resolve().parents[1] / "README.md"
_WAYS = (RAW, IN_PROCESS, PROCESS)


async def run(wanted: argparse.Namespace) -> int:
    """Measure all; returns the exit status."""
    machine = report.machine()
    numbers = [int(number) for number in wanted.rooms.split(",")]
    redis = RedisServer(FLAVOURS[0])
    redis.start()
    registry = Registry.connect(redis.url)
    loads, answers = [], []
    try:
        _note("what is inside of a node")
        found = await inside.measure()
        with running_livekit() as server:
            stage = Stage(server, redis.url, registry)
            _note("a node without rooms")
            idle_cores = await stage.idle(wanted.seconds)
            for rooms in numbers:
                for way in _WAYS:
                    _note(f"{rooms} rooms, {way}")
                    loads.append(await stage.load(way, rooms, wanted.seconds))
            for way in _WAYS:
                _note(f"from key to picture, {way}")
                answers.append(await stage.answers(way))
    finally:
        await registry.aclose()
        redis.stop()
    results = Results(
        machine=machine, idle_cores=idle_cores, loads=loads, answers=answers, inside=found
    )
    text = report.markdown(results)
    print(text, flush=True)
    if wanted.record:
        _README.write_text(report.put_in(_README.read_text(encoding="utf-8"), text), "utf-8")
    return 1 if report.missed(results) else 0


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="scripts/bench node", description=__doc__)
    parser.add_argument("--rooms", default="1,4,10", help="how many at once, with commas")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each is measured")
    parser.add_argument("--record", action="store_true", help="write the tables into the README")
    code = asyncio.run(run(parser.parse_args()))
    sys.stdout.flush()
    os._exit(code)  # the SDK's threads may abort a process that ends right after a disconnect


def _note(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
