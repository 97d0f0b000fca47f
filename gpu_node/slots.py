"""Which resident cache slot belongs to which session?

For service files, which may import this module by itself: it needs nothing but the standard
library. What a session keeps on the model's side (keys and values, encoder and decoder caches) is
allocated up front, once per slot, so that no session can be admitted and then find no memory::

    pool = SlotPool([make_caches() for _ in range(plan.effective_capacity)], name="caches")

    slot = pool.take(session_id)           # create_session: slot.storage is this session's alone
    with pool.cleaning(slot.index) as caches:   # close_session
        caches.clear()

The lowest slot is taken first, and of those that came back the latest: what it touched is warm. A
slot is free again only after its clean-up went through. If it raises, the slot is *quarantined*: it
counts as taken until somebody says otherwise, for whoever got it would see what is left of the
session before. Let the error out of ``close_session``: then the node keeps the session listed, the
registry keeps the slot back, and the alert for it tells an operator.

Calls may come from any thread: sessions are made on one and closed on others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

Storage = TypeVar("Storage")


class PoolFull(RuntimeError):
    """No slot is free; the capacity that was told is larger than the pool, or slots are lost."""


class SlotMisused(RuntimeError):
    """A slot was given back twice, or by somebody who doesn't have it."""


class _State(Enum):
    FREE = "free"
    TAKEN = "taken"
    CLEANING = "cleaning"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(Generic[Storage]):
    """One session's place in the pool."""

    index: int
    storage: Storage


@dataclass(slots=True)
class _Place(Generic[Storage]):
    storage: Storage
    state: _State = _State.FREE
    owner: str = ""
    why: str = ""
    """Why it is quarantined."""


class SlotPool(Generic[Storage]):
    """A fixed number of slots and what stands in each."""

    def __init__(self, storages: Sequence[Storage], *, name: str = "pool") -> None:
        if not storages:
            raise ValueError(f"{name} has no slots; a pool has at least one")
        self.name = name
        self._places = [_Place(storage) for storage in storages]
        self._free = list(range(len(storages) - 1, -1, -1))
        """The next one to be taken is the last."""
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """How many slots there are, in whatever state."""
        return len(self._places)

    @property
    def free(self) -> int:
        """How many can be taken now."""
        with self._lock:
            return len(self._free)

    def take(self, owner: str) -> Slot[Storage]:
        """Give a free slot to *owner*; raises `PoolFull`."""
        with self._lock:
            if not self._free:
                raise PoolFull(f"{self.name} is full: all {self.capacity} slots are taken")
            index = self._free.pop()
            place = self._places[index]
            place.state, place.owner = _State.TAKEN, owner
            return Slot(index=index, storage=place.storage)

    @contextmanager
    def cleaning(self, index: int) -> Iterator[Storage]:
        """Give a slot back after the block has cleaned it; if the block raises, quarantine it.

        Raises:
            SlotMisused: The slot isn't taken.
            IndexError: There is no such slot.
        """
        place = self._begin_cleaning(index)
        try:
            yield place.storage
        except BaseException as error:
            self._end_cleaning(index, _State.QUARANTINED, why=f"{type(error).__name__}: {error}")
            raise
        self._end_cleaning(index, _State.FREE)

    def give_back(self, index: int) -> None:
        """Give back a slot that needs no cleaning; raises as `cleaning` does."""
        with self.cleaning(index):
            pass

    def readmit(self, index: int) -> None:
        """A quarantined slot is clean after all; raises `SlotMisused` if it isn't quarantined."""
        with self._lock:
            self._expect(index, _State.QUARANTINED)
            self._set_free(index)

    def report(self) -> dict[str, Any]:
        """Return how many slots are free, taken and quarantined, and whose those are."""
        with self._lock:
            lost = [
                {"slot": index, "owner": place.owner, "why": place.why}
                for index, place in enumerate(self._places)
                if place.state is _State.QUARANTINED
            ]
            return {
                "capacity": self.capacity,
                "free": len(self._free),
                "taken": self.capacity - len(self._free) - len(lost),
                "quarantined": lost,
            }

    def _begin_cleaning(self, index: int) -> _Place[Storage]:
        """While it is being cleaned nobody else may do so."""
        with self._lock:
            place = self._expect(index, _State.TAKEN)
            place.state = _State.CLEANING
            return place

    def _end_cleaning(self, index: int, state: _State, *, why: str = "") -> None:
        with self._lock:
            if state is _State.FREE:
                self._set_free(index)
            else:
                self._places[index].state, self._places[index].why = state, why[:200]

    def _set_free(self, index: int) -> None:
        place = self._places[index]
        place.state, place.owner, place.why = _State.FREE, "", ""
        self._free.append(index)

    def _expect(self, index: int, state: _State) -> _Place[Storage]:
        if not 0 <= index < len(self._places):
            raise IndexError(
                f"{self.name} has no slot {index}: they go from 0 to {len(self._places) - 1}"
            )
        place = self._places[index]
        if place.state is not state:
            raise SlotMisused(
                f"slot {index} of {self.name} is {place.state.value}, not {state.value}"
            )
        return place
