"""How much does Redis lose when its machine dies?

With ``appendfsync everysec`` up to two seconds. Killing the process alone loses nothing, since the
kernel has what was written. So the size of the append-only file is watched, and what the last
moments added is cut off while the server is down, in the middle of a command, too.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from pathlib import Path

_LOOK_EVERY_S = 0.05
_KEPT = 100


class AppendOnlyFile:
    """The file of one server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "appendonlydir"
        self._sizes: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    async def watch(self) -> None:
        """Note how it grows, for ever."""
        while True:
            if (path := self._latest()) is not None:
                self._sizes.append((time.monotonic(), path.stat().st_size))
            await asyncio.sleep(_LOOK_EVERY_S)

    def lose(self, lost_s: float, chance: random.Random) -> int:
        """Cut off what the last *lost_s* added and some bytes more; returns how many bytes."""
        path = self._latest()
        if path is None:
            return 0
        size, since_s = path.stat().st_size, time.monotonic() - lost_s
        older = [at_size for at_s, at_size in self._sizes if at_s <= since_s]
        kept = max(0, min(size, older[-1] if older else size) - chance.randint(1, 200))
        os.truncate(path, kept)
        self._sizes.clear()
        return size - kept

    def _latest(self) -> Path | None:
        files = sorted(
            self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3])
        )
        return files[-1] if files else None
