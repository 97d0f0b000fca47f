"""Is memory given back: of large buffers when they are freed, of rooms after they were left?"""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from gpu_node.memory import GIVE_BACK_AFTER_S, PATIENCE_S, REST_S, Tidying
from tests.support.manual_clock import ManualClock

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


HEAP_SCRIPT = """
import sys
from pathlib import Path
from gpu_node.memory import give_free_pages_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

before = resident_mib()
pieces = [bytearray(8 * 1024) for _ in range(5_000)]
last = bytearray(8 * 1024)  # behind them on the heap: nothing can be cut off at its end
pieces.clear()
kept = resident_mib() - before
assert kept > 20, kept
assert give_free_pages_back()
print(resident_mib() - before)
"""


def test_free_pages_in_the_middle_of_a_heap_go_back_to_the_system() -> None:
    """Small pieces aren't mapped one by one, and something always lives behind them."""
    done = subprocess.run(
        [sys.executable, "-c", HEAP_SCRIPT], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 4


class Cycle:
    """What only Python's collector frees, as the media SDK's rooms."""

    def __init__(self) -> None:
        self.me = self


class Rooms:
    """When a room was last left, and a cycle that it left behind."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.last_parting_s: float | None = None
        self.given_back_at_s: list[float] = []

    def note_trim(self) -> None:
        self.given_back_at_s.append(self.clock.monotonic_s())

    def part(self) -> weakref.ref[Cycle]:
        self.last_parting_s = self.clock.monotonic_s()
        return weakref.ref(Cycle())


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    """Rooms of a node; the collector does nothing by itself."""
    gc.disable()
    yield Rooms(ManualClock())
    gc.enable()
    gc.unfreeze()


def tidying_of(rooms: Rooms) -> Tidying:
    """Return what tidies up after them."""
    return Tidying(lambda: rooms.last_parting_s, rooms.clock.monotonic_s, rooms.note_trim)


async def test_what_a_room_left_is_freed_some_seconds_later(rooms: Rooms) -> None:
    """Not at once: its threads still end."""
    tidying = tidying_of(rooms)
    left = rooms.part()
    rooms.clock.move(REST_S - 1)
    await tidying.look()
    assert left() is not None
    rooms.clock.move(2)
    await tidying.look()
    assert left() is None


async def test_nothing_is_done_while_no_room_is_left(rooms: Rooms) -> None:
    """A look at a node at rest costs nothing."""
    tidying = tidying_of(rooms)
    rooms.part()
    rooms.clock.move(REST_S + 1)
    await tidying.look()
    idle = weakref.ref(Cycle())
    rooms.clock.move(PATIENCE_S)
    await tidying.look()
    assert idle() is not None


async def test_rooms_that_are_left_all_the_time_put_nothing_off_for_ever(rooms: Rooms) -> None:
    """There is never a pause of five seconds: it's done every half minute."""
    tidying = tidying_of(rooms)
    first = rooms.part()
    for _ in range(int(PATIENCE_S)):
        rooms.clock.move(1)
        rooms.part()
        await tidying.look()
    assert first() is None


async def test_free_pages_are_given_back_until_the_last_thread_has_ended(rooms: Rooms) -> None:
    """What is freed late would stay with the process until the next room is left."""
    tidying = tidying_of(rooms)
    rooms.part()
    parted_s = rooms.clock.monotonic_s()
    for _ in range(60):
        rooms.clock.move(1)
        await tidying.look()
    after_s = [at_s - parted_s - REST_S for at_s in rooms.given_back_at_s]
    assert after_s == list(GIVE_BACK_AFTER_S)
