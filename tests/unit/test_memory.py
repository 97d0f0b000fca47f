"""Is memory of large buffers given back when they are freed?"""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from pathlib import Path
from gpu_node.memory import keep_large_buffers_off_the_heap

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

if sys.argv[1] == "fixed":
    assert keep_large_buffers_off_the_heap()
bytearray(8 * 2**20)  # glibc raises its threshold to the largest mapped buffer that it saw freed
before = resident_mib()
small, large = [], []
for _ in range(100):
    large.append(bytearray(400 * 1024))
    small.append(bytearray(600))
large.clear()
print(resident_mib() - before)
"""


def grown_mib(way: str) -> float:
    """How much a fresh process keeps of 40 MiB of buffers that were freed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, way], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def test_freed_buffers_go_back_to_the_system() -> None:
    """Small things that were made between them and live on hold nothing back."""
    assert grown_mib("fixed") < 4
