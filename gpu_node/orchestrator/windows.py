"""How many artifacts may lie on an edge, and which?

A window of sequence numbers, see `graph`. Room isn't counted: whatever lies within the window has
its place, so reserving one is the same as being allowed to begin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Window:
    """One edge of one session: what has been made and not yet taken."""

    capacity: int
    base: int = 0
    """The lowest sequence that hasn't been taken. Only rises, but for `give_back`."""
    values: dict[int, Any] = field(default_factory=dict)
    _ahead: set[int] = field(default_factory=set)
    """Taken before one below them was; at most ``capacity - 1``."""

    def has_room(self, sequence: int) -> bool:
        """Whether *sequence* may be made now."""
        return sequence < self.base + self.capacity

    def put(self, sequence: int, value: object) -> None:
        """Lay *value* down in the place that was kept for it."""
        if not self.base <= sequence < self.base + self.capacity or sequence in self.values:
            raise AssertionError(f"sequence {sequence} has no place in {self}")
        self.values[sequence] = value

    def take(self, sequence: int) -> Any:
        """Return the value of *sequence* and free its place."""
        value = self.values.pop(sequence)
        self._ahead.add(sequence)
        while self.base in self._ahead:
            self._ahead.discard(self.base)
            self.base += 1
        return value

    def give_back(self, sequence: int, value: object) -> None:
        """Undo the `take` of *sequence*; only right after it, while nothing used the room."""
        self._ahead.update(range(sequence + 1, self.base))
        self._ahead.discard(sequence)
        self.base = min(self.base, sequence)
        self.values[sequence] = value
