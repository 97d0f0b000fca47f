"""A loop that stands still is told from a process that did."""

from __future__ import annotations

import signal
import subprocess
import sys

from gpu_node.watchdog import STUCK_AFTER_S, LoopWatch

EVERY_S = 2.0


def looks(watch: LoopWatch, moved_at_s: float, *at_s: float) -> list[bool]:
    """Look at a loop that moved last at *moved_at_s*, at each of these times."""
    return [watch.is_stuck(moved_at_s, now_s) for now_s in at_s]


def test_a_loop_that_moves_is_never_stuck() -> None:
    """However long it's watched."""
    watch = LoopWatch(EVERY_S)
    assert not any(watch.is_stuck(now_s - 0.2, now_s) for now_s in map(float, range(0, 100, 2)))


def test_a_loop_is_stuck_after_ten_seconds_without_a_move() -> None:
    """Counted from the first look that found it where it was."""
    watch = LoopWatch(EVERY_S)
    assert looks(watch, 0.0, 0.1, 2, 4, 6, 8, 10) == [False] * 6
    assert looks(watch, 0.0, 10.2) == [True]
    assert looks(watch, 10.3, 10.4) == [False]


def test_a_frozen_process_is_not_a_stuck_loop() -> None:
    """Both stood for half a minute; the loop gets its ten seconds from the awakening on."""
    watch = LoopWatch(EVERY_S)
    assert looks(watch, 0.0, 0.1, 2, 32, 34, 36, 38, 40) == [False] * 7
    assert looks(watch, 0.0, 42, 43) == [False, True]


def test_a_slow_beat_is_no_freeze() -> None:
    """A look may be late by the second that a beat waits for its answer."""
    watch = LoopWatch(EVERY_S)
    late = [0.1 + 3.0 * look for look in range(5)]
    assert looks(watch, 0.0, *late)[-1] == (late[-1] - late[0] > STUCK_AFTER_S)


def test_the_process_ends_at_once() -> None:
    """No clean-up that would need the loop; the log says why."""
    code = "from gpu_node.watchdog import kill_this_process as kill; kill(); input()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert b"event_loop_stuck" in done.stdout
