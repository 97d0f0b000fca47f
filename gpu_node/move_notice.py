"""When are a node's rooms told that an operator has their sessions moved? Pure.

Each beat's reply names the time that is left. Pages count down by themselves: they are told when it
begins, when it's called off, and now and then in between, for whoever came in since and because
registry time may stand still for a while.
"""

from __future__ import annotations

SAY_AGAIN_S = 5.0


class MoveNotice:
    """What the rooms of one node have been told."""

    def __init__(self) -> None:
        self._told_at_s: float | None = None
        """None: nothing that isn't called off."""

    def is_due(self, moves_in_s: float | None, now_s: float) -> bool:
        """Whether to tell the rooms now; if so, they have been told."""
        if moves_in_s is None:
            was_told, self._told_at_s = self._told_at_s is not None, None
            return was_told
        if self._told_at_s is not None and now_s - self._told_at_s < SAY_AGAIN_S:
            return False
        self._told_at_s = now_s
        return True
