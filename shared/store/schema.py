"""May this release work beside those that use the registry?

Releases that are adjacent run side by side during a roll-out: each brings its own scripts, and
neither writes what the other can't read. So the meaning of the keys has a number (`keys.SCHEMA`),
raised by one with a release that changes it; whoever opens a session or registers a node notes the
highest one in ``ctr.schema``. A new state is written only by the release after the one that learned
to read it: then nobody who is still there is surprised. Two steps at once are refused at the start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from shared.errors import StartupError, StoreUnavailable
from shared.store import keys
from shared.store.connection import Connection

_TRY_AGAIN_S = 0.1


async def check_schema(connection: Connection, pools: Iterable[str], *, within_s: float) -> None:
    """Refuse pools whose keys were written by a release that isn't this one or next to it.

    Raises:
        StartupError: A pool's schema is two or more ahead or behind, or it can't be read within
            *within_s*: Redis may go away and come back just now.
    """
    deadline_s = time.monotonic() + within_s
    for pool in pools:
        noted = await _noted(connection, pool, deadline_s)
        if isinstance(noted, bytes):
            refuse(pool, int(noted))


async def _noted(connection: Connection, pool: str, deadline_s: float) -> object:
    while True:
        try:
            return await connection.command(pool, "HGET", keys.counters_key(pool), "schema")
        except StoreUnavailable as fault:
            if time.monotonic() > deadline_s:
                raise StartupError(
                    f"Redis doesn't tell who uses pool {pool} ({fault}).", try_="start it again"
                ) from fault
        await asyncio.sleep(_TRY_AGAIN_S)


def refuse(pool: str, noted: int, *, known: int = keys.SCHEMA) -> None:
    """Refuse a pool of schema *noted* if it's more than one step away; raises `StartupError`."""
    if noted > known + 1:
        raise StartupError(
            f"Pool {pool} is used by a release that is too new for this one "
            f"(schema {noted}, this one knows {known}).",
            try_="start the release that the others run",
        )
    if noted < known - 1:
        raise StartupError(
            f"Pool {pool} was last used by a release that is too old for this one "
            f"(schema {noted}, this one writes {known}).",
            try_="run the releases in between one after the other, or begin with an empty Redis",
        )
