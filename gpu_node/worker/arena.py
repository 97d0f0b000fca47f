"""How do pictures and sound cross to the node without going through the pipe?

By shared memory that has no name: each *slot* is a memfd, made by the child when it needs one and
handed over a socket of its own just before the first message that speaks of it. So nothing is left
behind, whoever is killed: the kernel takes a slot back with its last user. A slot's size is sealed,
so that the child can't cut it short under the node's feet.

A slot holds all media of one chunk. The child fills it, tells its number, and doesn't touch it
again until the node gives it back, which happens when the last array that shows a part of it is
gone. Few are in use at a time, since a session has at most one chunk made and not taken.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
import weakref
from collections.abc import Callable

import numpy as np

from gpu_node.worker.parcels import Block

_NUMBER = struct.Struct("!I")
_PAGE_BYTES = 64 * 1024
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_FREE_KEPT = 8
_FREE_BYTES_KEPT = 256 * 1024 * 1024
_WASTE = 4
"""A free slot is used for a chunk of at least a fourth of its size."""


class Slots:
    """The child's side. Used on one thread."""

    def __init__(self, handover: socket.socket) -> None:
        self._handover = handover
        self._made = 0
        self._lent: dict[int, mmap.mmap] = {}
        self._free: dict[int, mmap.mmap] = {}
        """Longest unused first."""
        self._dropped: list[int] = []

    def lend(self, size_bytes: int) -> tuple[int, Block]:
        """Return the number and the bytes of a slot that nobody else uses."""
        fits = [
            (len(memory), number)
            for number, memory in self._free.items()
            if size_bytes <= len(memory) <= max(_WASTE * size_bytes, _PAGE_BYTES)
        ]
        if fits:
            number = min(fits)[1]
            memory = self._free.pop(number)
        else:
            number, memory = self._make(size_bytes)
        self._lent[number] = memory
        return number, np.frombuffer(memory, np.uint8, size_bytes)

    def take_back(self, number: int) -> None:
        """The node has no use for it any more."""
        memory = self._lent.pop(number, None)
        if memory is None:
            return
        self._free[number] = memory
        while self._free and (
            len(self._free) > _FREE_KEPT
            or sum(len(kept) for kept in self._free.values()) > _FREE_BYTES_KEPT
        ):
            oldest = next(iter(self._free))
            del self._free[oldest]  # unmapped with its last view
            self._dropped.append(oldest)

    def dropped(self) -> list[int]:
        """Return the slots that are gone since the last call; the node must hear of them."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def _make(self, size_bytes: int) -> tuple[int, mmap.mmap]:
        size_bytes = max(1, -(-size_bytes // _PAGE_BYTES)) * _PAGE_BYTES
        self._made += 1
        descriptor = os.memfd_create("greenroom-chunk", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size_bytes)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            memory = mmap.mmap(descriptor, size_bytes)
            socket.send_fds(self._handover, [_NUMBER.pack(self._made)], [descriptor])
        finally:
            os.close(descriptor)
        return self._made, memory


class BrokenSlot(Exception):
    """A slot isn't what the child said."""


class SlotViews:
    """The node's side. Used on one thread, except for the last moments of a view."""

    def __init__(self, handover: socket.socket, give_back: Callable[[int], None]) -> None:
        self._handover = handover
        self._handover.setblocking(False)
        self._give_back = give_back
        """Called with a slot's number once nothing shows it any more; by any thread."""
        self._mapped: dict[int, mmap.mmap] = {}

    def view(self, number: int, size_bytes: int) -> Block:
        """Return the bytes of a slot, read-only; raises `BrokenSlot`."""
        while number not in self._mapped:
            self._receive()
        memory = self._mapped[number]
        if size_bytes > len(memory):
            raise BrokenSlot(f"{size_bytes} bytes in a slot of {len(memory)}")
        block = np.frombuffer(memory, np.uint8, size_bytes)
        weakref.finalize(block, self._give_back, number).atexit = False
        return block

    def drop(self, numbers: list[int]) -> None:
        """The child has let go of these; each is unmapped with its last view."""
        for number in numbers:
            self._mapped.pop(number, None)

    @property
    def count(self) -> int:
        """Slots that are mapped now."""
        return len(self._mapped)

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._handover, _NUMBER.size, 1, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError as fault:
            raise BrokenSlot("it wasn't handed over") from fault
        try:
            if len(data) != _NUMBER.size or not descriptors:
                raise BrokenSlot("the handover is closed")
            (number,) = _NUMBER.unpack(data)
            if not _is_sealed(descriptors[0]):
                raise BrokenSlot("it isn't sealed")
            size_bytes = os.fstat(descriptors[0]).st_size
            self._mapped[number] = mmap.mmap(descriptors[0], size_bytes, prot=mmap.PROT_READ)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _is_sealed(descriptor: int) -> bool:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:  # no memory at all
        return False
