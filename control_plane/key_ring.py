"""Which API keys are valid now?

A replica doesn't ask Redis for each request: it holds all keys and reads them anew every
`READ_EVERY_S`. A key that it doesn't know makes it look before it refuses, so that a new key works
at once; but at most every `LOOK_AGAIN_S`, whatever strangers send: they wait for the next look.

A key that was revoked is refused after `READ_EVERY_S` and one answer of Redis, at the latest. If
Redis can't be read for `GOOD_FOR_S`, no key is valid and none is invalid: who shows one is told to
come back (503). An emptied registry has no keys, so all are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NoReturn

from shared.access_keys import ApiKey
from shared.clock import Clock, SystemClock
from shared.errors import StoreUnavailable
from shared.lifecycle import repeat
from shared.store import Registry

READ_EVERY_S = 2.0
LOOK_AGAIN_S = 0.25
GOOD_FOR_S = 5.0


class KeyRing:
    """The keys that the registry holds, as this replica knows them."""

    def __init__(self, *, registry: Registry, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock or SystemClock()
        self._keys: dict[str, ApiKey] = {}
        self._good_until_s = -1.0
        self._asked_at_s = self._looked_at_s = -LOOK_AGAIN_S
        """When the last look began, and when it ended."""
        self._trouble: StoreUnavailable | None = None
        """Why the last look found nothing."""
        self._looking: asyncio.Task[None] | None = None

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, None if there is none.

        Raises:
            StoreUnavailable: That can't be known now.
        """
        came_at_s = self._clock.monotonic_s()
        if key_id not in self._keys or came_at_s >= self._good_until_s:
            await self._look()
            if key_id not in self._keys and self._asked_at_s < came_at_s:
                await self._look()  # that one had begun before; the key may be newer
        is_unsure = self._trouble is not None and key_id not in self._keys
        if is_unsure or self._clock.monotonic_s() >= self._good_until_s:
            raise StoreUnavailable(why=self._trouble.why if self._trouble else "no answer in time")
        return self._keys.get(key_id)

    def still_has(self, key_id: str) -> bool:
        """Say whether a key that was found before was still there at the last look."""
        return key_id in self._keys

    async def run(self) -> NoReturn:
        """Read the keys now and then, for ever."""
        await repeat(self._look, name="key_ring", every_s=READ_EVERY_S, longest_s=READ_EVERY_S)

    async def aclose(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self) -> None:
        """Read the keys, but not too soon after the last time; who comes meanwhile waits, too.

        A look that failed a moment ago is not repeated: nobody waits for an outage in a queue.
        """
        if self._looking is None or self._looking.done():
            soon_s = self._looked_at_s + LOOK_AGAIN_S - self._clock.monotonic_s()
            if soon_s > 0 and self._trouble:
                return
            self._looking = asyncio.create_task(self._read(max(soon_s, 0.0)), name="read_keys")
        await asyncio.shield(self._looking)

    async def _read(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        # From before the question: a key may be revoked while the answer travels.
        asked_at_s = self._asked_at_s = self._clock.monotonic_s()
        try:
            self._keys = await self._registry.access.keys()
            self._trouble = None
            self._good_until_s = asked_at_s + GOOD_FOR_S
        except StoreUnavailable as trouble:
            self._trouble = trouble
        finally:
            self._looked_at_s = self._clock.monotonic_s()
