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
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.support.wait import wait_until_sync

_LOOK_EVERY_S = 0.05
_KEPT = 2400
"""Two minutes: the last write before the cut may be that old if the server was down meanwhile."""
_UNKNOWN_S = 120.0
_EXEC = b"*1\r\n$4\r\nEXEC\r\n"
_LOOKED_AT_BYTES = 1 << 20
_LONG_BYTES = 8 << 20
_SHRINKS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What a cut took."""

    bytes: int
    since_s: float
    """When the first byte of it had not been written yet (monotonic)."""


class AppendOnlyFile:
    """The file of one server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "appendonlydir"
        self._watched: Path | None = None
        self._sizes: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    async def watch(self) -> None:
        """Note how it grows, for ever."""
        while True:
            path = self._latest()
            if path != self._watched:  # the server has written it anew
                self._watched = path
                self._sizes.clear()
            if path is not None:
                self._sizes.append((time.monotonic(), path.stat().st_size))
            await asyncio.sleep(_LOOK_EVERY_S)

    def lose(self, lost_s: float, chance: random.Random) -> Lost:
        """Cut off what the last *lost_s* added and a bit more."""
        path, now_s = self._latest(), time.monotonic()
        if path is None:
            return Lost(bytes=0, since_s=now_s)
        size = path.stat().st_size
        older = [at_size for at_s, at_size in self._sizes if at_s <= now_s - lost_s]
        wanted = min(size, older[-1] if older else size) - chance.randint(1, 200)
        kept = _end_of_transaction(path, wanted)
        os.truncate(path, kept)
        # All that is left of it may be older than *lost_s*: nothing was written, or nobody looked.
        whole = [at_s for at_s, at_size in self._sizes if at_size <= kept]
        since_s = whole[-1] if whole else now_s - lost_s - _UNKNOWN_S
        self._sizes.clear()
        return Lost(bytes=size - kept, since_s=min(since_s, now_s - lost_s))

    def _latest(self) -> Path | None:
        files = sorted(
            self._folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3])
        )
        return files[-1] if files else None

    async def shrink(self, url: str) -> None:
        """Have the server write it anew once it's so long that loading it takes seconds."""
        path = self._latest()
        if path is None or path.stat().st_size < _LONG_BYTES:
            return
        await asyncio.to_thread(_rewrite, url)


def _rewrite(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.bgrewriteaof()

        def is_written() -> bool:
            now = client.info("persistence")
            return not (now["aof_rewrite_in_progress"] or now["aof_rewrite_scheduled"])

        wait_until_sync(is_written, "Redis has written its file anew", _SHRINKS_WITHIN_S)


def _end_of_transaction(path: Path, before: int) -> int:
    """Return where the last whole transaction ends that begins and ends before *before*."""
    with path.open("rb") as file:
        file.seek(max(0, before - _LOOKED_AT_BYTES))
        start = file.tell()
        found = file.read(max(0, before - start)).rfind(_EXEC)
    return start + found + len(_EXEC) if found >= 0 else start
