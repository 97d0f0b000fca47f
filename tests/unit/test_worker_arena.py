"""Is a slot of shared memory used by one chunk at a time, and gone when nobody needs it?"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpu_node.worker.arena import BrokenSlot, Slots, SlotViews


@pytest.fixture
def ends() -> Iterator[tuple[Slots, SlotViews, list[int]]]:
    """Both sides in one process, and the numbers of the slots that nothing shows any more."""
    its, mine = socket.socketpair(type=socket.SOCK_SEQPACKET)
    unused: list[int] = []
    with its, mine:
        yield Slots(its), SlotViews(mine, unused.append), unused


def mapped() -> int:
    """Slots in this process's address space."""
    return Path("/proc/self/maps").read_text().count("memfd:greenroom-chunk")


def test_a_slot_shows_what_was_put_into_it_and_is_read_only(
    ends: tuple[Slots, SlotViews, list[int]],
) -> None:
    """Without a copy on the node's side."""
    slots, views, _ = ends
    number, block = slots.lend(1000)
    block[:] = 7
    seen = views.view(number, 1000)
    assert (seen == 7).all()
    block[0] = 8
    assert seen[0] == 8
    assert not seen.flags.writeable


def test_a_slot_goes_back_with_the_last_array_that_shows_it(
    ends: tuple[Slots, SlotViews, list[int]],
) -> None:
    """A part that is kept keeps all of it; then the slot is used again."""
    slots, views, unused = ends
    number, block = slots.lend(100)
    del block
    seen = views.view(number, 100)
    part = seen[10:20].view(np.uint16).reshape(5, 1)[2:]
    del seen
    gc.collect()
    assert unused == []
    assert slots.lend(100)[0] != number
    del part
    gc.collect()
    assert unused == [number]
    slots.take_back(number)
    assert slots.lend(100)[0] == number


def test_a_small_chunk_never_takes_a_huge_slot(ends: tuple[Slots, SlotViews, list[int]]) -> None:
    """Or one preview would hold the memory of a whole film."""
    slots, _, _ = ends
    huge, block = slots.lend(100_000_000)
    del block
    slots.take_back(huge)
    assert slots.lend(1000)[0] != huge
    assert slots.lend(90_000_000)[0] == huge


def test_slots_that_are_not_needed_are_let_go_of_on_both_sides(
    ends: tuple[Slots, SlotViews, list[int]],
) -> None:
    """After a rush a few stay, each with one mapping and one descriptor on either side."""
    slots, views, _ = ends
    before, files = mapped(), len(list(Path("/proc/self/fd").iterdir()))
    numbers = [slots.lend(1000)[0] for _ in range(30)]
    for number in numbers:
        views.view(number, 1000)
    assert mapped() == before + 60
    for number in numbers:
        slots.take_back(number)
        slots.take_back(number)
    gc.collect()
    views.drop(slots.dropped())
    assert views.count == 8
    assert mapped() == before + 16
    assert len(list(Path("/proc/self/fd").iterdir())) == files + 16
    assert slots.dropped() == []


def test_nothing_that_a_broken_child_hands_over_is_trusted() -> None:
    """Too short, unsealed, no memory at all, or nothing: each is an error, never a crash."""
    its, mine = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with its, mine:
        slots, views = Slots(its), SlotViews(mine, lambda _: None)
        with pytest.raises(BrokenSlot, match="handed over"):
            views.view(1, 10)
        number, _ = slots.lend(10)
        with pytest.raises(BrokenSlot, match="slot of"):
            views.view(number, 10_000_000)
        unsealed = os.memfd_create("unsealed")
        for descriptor in (unsealed, its.fileno()):
            socket.send_fds(its, [b"\0\0\0\x09"], [descriptor])
            with pytest.raises(BrokenSlot, match="sealed"):
                views.view(9, 10)
        os.close(unsealed)
        its.close()
        with pytest.raises(BrokenSlot, match="closed"):
            views.view(99, 10)


def test_a_slot_cant_be_cut_short_under_the_nodes_feet() -> None:
    """To read beyond the end of a shorter file would kill the node."""
    its, mine = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with its, mine:
        Slots(its).lend(10)
        _, (descriptor,), _, _ = socket.recv_fds(mine, 4, 1)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
