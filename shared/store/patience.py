"""How long may an answer take, if our own loop was too busy to look for it?

``asyncio.timeout`` counts seconds on the wall. After a stall of the event loop (a hundred requests
that came at once, a process that got no CPU) its time is up although the answer has long been
there: nobody had come to read it. `awake_timeout` counts four quarters, each begun when the loop
saw the end of the one before, so a stall costs one quarter and the others leave time to read.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

_PARTS = 4


class awake_timeout:  # noqa: N801 - used as asyncio.timeout is
    """Raise `TimeoutError` when its block takes *limit_s* of a loop that isn't stalled."""

    __slots__ = ("_cancelling", "_is_over", "_left", "_loop", "_part_s", "_task", "_timer")

    def __init__(self, limit_s: float) -> None:
        self._part_s = limit_s / _PARTS
        self._left = _PARTS
        self._is_over = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task that it can stop")
        self._task = task
        self._cancelling = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._part_s, self._tick)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        # Somebody else may have cancelled the task as well: then that counts, as it came.
        is_ours = self._is_over and self._task.uncancel() <= self._cancelling
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _tick(self) -> None:
        self._left -= 1
        if self._left:
            self._timer = self._loop.call_later(self._part_s, self._tick)
        else:
            self._is_over = True
            self._task.cancel()
