"""Was this event told before?

The media server repeats what wasn't answered in time, and anybody can repeat what was: an event
counts once, whichever replica hears it. Events are forgotten after a while, longer than their
signatures are good for.
"""

from __future__ import annotations

import hashlib

from shared.store import keys
from shared.store.connection import Connection

KEPT_S = 600
"""A signature is good for five minutes, and one more for clocks that differ."""


class Hearsay:
    """The events of one registry that were heard lately."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def is_new(self, pool: str, event_id: str) -> bool:
        """Note the event and return whether it is the first time.

        Raises:
            StoreUnavailable: Redis is out.
        """
        digest = hashlib.sha256(event_id.encode()).hexdigest()[:32]
        key = keys.heard_key(pool, digest)
        return await self._connection.command(pool, "SET", key, 1, "NX", "EX", KEPT_S) is not None
