"""Does the whole system lose, double, overtake or leak anything in a few seeds of chaos?

The bounded part of ``scripts/chaos``: a lost tail behind a cut, and nodes that wake as zombies. For
more, run the command itself.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.wait import scaled_s, wait_until_sync

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ("--first-seed", "1", "--seeds", "2", "--guests", "16")
FLEET = 8
"""Redis, replicas and nodes."""


@contextlib.contextmanager
def running_chaos(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command for the length of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.chaos_run", "--json", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.timeout(scaled_s(240))
def test_nothing_is_lost_doubled_overtaken_or_leaked() -> None:
    """Each seed ends with every session ended once and every slot free, whatever died in it."""
    with running_chaos(*SEEDS) as process:
        told, complaints = process.communicate(timeout=scaled_s(230))
    *seeds, whole = [json.loads(line) for line in told.splitlines()]
    wrong = {seed["seed"]: seed["findings"] for seed in seeds if not seed["holds"]}
    assert (process.returncode, wrong) == (0, {}), complaints
    assert (whole["seeds"], whole["failed"]) == (2, [])
    # How many guests get in before they give up is a matter of speed; that some played is not.
    assert all(seed["sessions"] > 0 and seed["frames"] > 0 for seed in seeds)


@pytest.mark.timeout(scaled_s(90))
def test_a_killed_run_leaves_no_process_behind() -> None:
    """Not even kill -9 of the run leaves a node or a Redis on the machine."""
    with running_chaos("--seeds", "1") as process:
        run = psutil.Process(process.pid)
        wait_until_sync(lambda: len(run.children()) > FLEET, "the fleet starts", timeout_s=60)
        family = run.children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(family, timeout=scaled_s(10))
        assert alive == []
