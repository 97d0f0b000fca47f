"""What is said of a lost tail?"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from scripts.chaos_run.append_only_file import AppendOnlyFile
from tests.support.wait import wait_until

WRITE = b"*1\r\n$5\r\nMULTI\r\n" + b"x" * 400 + b"*1\r\n$4\r\nEXEC\r\n"


async def test_a_loss_is_as_old_as_the_first_write_that_is_gone(tmp_path: Path) -> None:
    """However short the time that was asked for: the server may have written nothing since."""
    path = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    path.parent.mkdir()
    path.touch()
    file = AppendOnlyFile(tmp_path)
    watching = asyncio.create_task(file.watch())
    begun_s = 0.0
    for writes in (1, 2):
        begun_s = time.monotonic()
        path.write_bytes(writes * WRITE)

        def is_seen(size: int = writes * len(WRITE)) -> bool:
            return bool(file._sizes) and file._sizes[-1][1] == size

        await wait_until(is_seen, "the size is noted")
    taken = file.lose(0.0, random.Random(1))
    watching.cancel()
    assert path.read_bytes() == WRITE
    assert taken.bytes == len(WRITE)
    assert taken.since_s <= begun_s
