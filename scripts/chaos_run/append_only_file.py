"""How much does Redis lose when its machine dies?

With ``appendfsync everysec`` up to two seconds. Killing the process alone loses nothing, since the
kernel has what was written. So the size of the append-only file is watched, and what the last
moments added is cut off while the server is down.

The cut is made after a whole transaction (a script's writes are one), as ``redis-check-aof --fix``
does. Where a file ends inside one, Redis 7.0 comes up right but leaves the half transaction in the
file, and carries it out at its next start together with the one that follows: seen as "MULTI calls
can not be nested" in its log, and as a session that is back after minutes without a word.
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
_EXEC = b"*1\r\n$4\r\nEXEC\r\n"
_LOOKED_AT_BYTES = 1 << 20


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
        """Cut off what the last *lost_s* added and a bit more; returns how many bytes."""
        path = self._latest()
        if path is None:
            return 0
        size, since_s = path.stat().st_size, time.monotonic() - lost_s
        older = [at_size for at_s, at_size in self._sizes if at_s <= since_s]
        wanted = min(size, older[-1] if older else size) - chance.randint(1, 200)
        kept = _end_of_transaction(path, wanted)
        os.truncate(path, kept)
        self._sizes.clear()
        return size - kept

    def _latest(self) -> Path | None:
        files = sorted(
            self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3])
        )
        return files[-1] if files else None


def _end_of_transaction(path: Path, before: int) -> int:
    """Return where the last whole transaction ends that begins and ends before *before*."""
    with path.open("rb") as file:
        file.seek(max(0, before - _LOOKED_AT_BYTES))
        start = file.tell()
        found = file.read(max(0, before - start)).rfind(_EXEC)
    return start + found + len(_EXEC) if found >= 0 else start
