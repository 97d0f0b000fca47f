"""How does a test set a process's wall clock wrong, while it runs?

All processes of a machine share its clock, so the process is deceived: `deceive` puts `time.time`
and `time.time_ns` off by what stands in a small file, which whoever has the file's other end may
change at any moment. Monotonic clocks run on as they are: no step of a wall clock moves them.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_OFFSET = struct.Struct("<q")
"""Nanoseconds."""
_NS = 1_000_000_000


class StepLever:
    """The end that sets a clock wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_OFFSET.pack(0))

    def set_s(self, offset_s: float) -> None:
        """Let the clock be ahead by this much, at once; below zero: behind."""
        with self.path.open("r+b") as file:
            file.write(_OFFSET.pack(round(offset_s * _NS)))


def deceive(path: Path) -> None:
    """Let this process's wall clock follow the lever of *path*, for good."""
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    true_ns = time.time_ns

    def time_ns() -> int:
        return true_ns() + int(_OFFSET.unpack_from(offset)[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / _NS
