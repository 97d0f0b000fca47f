"""What does a node keep of a session, to bring it back after the registry lost it?

The registry's own bundle, read as soon as the session is accepted and again when it runs, and its
image. The text is opaque here: only the registry's scripts look into it. What is left of the
session's limit is in it, so the time that was played since is told with it; seconds in which the
node was silent are the user's own and don't count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import structlog

from shared.clock import Clock
from shared.errors import AssetBudgetSpent
from shared.records import Owner
from shared.states import SessionState
from shared.store import Registry

_log = structlog.get_logger()


class Bundle:
    """All that is needed to bring one session back (R14)."""

    def __init__(
        self, registry: Registry, session_id: str, clock: Clock, silent_s: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._session_id = session_id
        self._clock = clock
        self._silent_s = silent_s
        """For how long the session was silent here, in all."""
        self._text: str | None = None
        self._played_at_s = 0.0
        """Seconds of play, on the clock of `_now_s`, when the text was read."""
        self.image: bytes | None = None
        """The session's picture as JPEG, if it has one."""

    @property
    def is_packed(self) -> bool:
        """Whether there is anything to bring back."""
        return self._text is not None

    async def pack(self) -> bool:
        """Read it, or read it again; False if the registry doesn't know the session.

        Raises:
            StoreUnavailable: What was read before stays.
        """
        at_s = self._now_s()
        text = await self._registry.bundle(self._session_id)
        if text is None:
            return False
        if self._text is None:
            self.image = await self._registry.image(self._session_id)
        self._text, self._played_at_s = text, at_s
        return True

    async def restore(
        self, owner: Owner, state: SessionState, stamp: int
    ) -> Literal["adopted", "fenced"]:
        """Give it to the registry: the session is *owner*'s and has come as far as *state*.

        Raises:
            StoreUnavailable: It may have counted all the same; it may be repeated.
        """
        if self._text is None:
            raise RuntimeError("nothing was packed")
        if self.image is not None:
            try:
                await self._registry.put_image(self._session_id, self.image)
            except AssetBudgetSpent:  # it plays on here; elsewhere it would begin without
                _log.warning("image_not_restored", session=self._session_id)
        age_s = max(0.0, self._now_s() - self._played_at_s)
        return await self._registry.adopt(owner, state, stamp=stamp, bundle=self._text, age_s=age_s)

    def _now_s(self) -> float:
        return self._clock.monotonic_s() - self._silent_s()
