"""Can a process's wall clock be set wrong while it runs, and nothing else of it?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.stepped_clock import StepLever

ROOT = Path(__file__).resolve().parents[2]
TELLS = """
import sys, time
from pathlib import Path
from shared.clock import SystemClock
from tests.support.stepped_clock import deceive
true, clock = time.time, SystemClock()
deceive(Path(sys.argv[1]))
for _ in sys.stdin:
    print(round(time.time() - true()), round(clock.wall_ms() / 1000 - true()),
          round(clock.monotonic_s() - time.clock_gettime(time.CLOCK_BOOTTIME)), flush=True)
"""


def test_a_deceived_process_follows_each_step_of_its_clock(tmp_path: Path) -> None:
    """Forwards, backwards and back; its monotonic clock runs on."""
    lever = StepLever(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", TELLS, str(lever.path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_s in (0, 3600, -3600, 5, 0):
            lever.set_s(ahead_s)
            process.stdin.write("now\n")
            process.stdin.flush()
            assert process.stdout.readline().split() == [str(ahead_s), str(ahead_s), "0"]
        process.stdin.close()
