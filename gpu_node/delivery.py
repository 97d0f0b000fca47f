"""Has the client received all that was played?

Two ways, chosen by ``config.delivery_mode``. *latest* (the default): what counts is the newest
picture; after the last one the session stays for a moment, so that it arrives. *lossless*: nothing
is played before somebody watches, and after the last picture the session waits until the client has
acknowledged all of them with ``delivery_ack``; the numbers are compared, and what came of it is
told.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import StrEnum

from gpu_node.stage import Stage
from shared.errors import InvalidConfig
from shared.records import SessionRequest

WATCHED_WITHIN_S = 2.0
DRAIN_S = 0.5
ACKNOWLEDGED_WITHIN_S = 15.0


class DeliveryMode(StrEnum):
    """What a session owes its client."""

    LATEST = "latest"
    LOSSLESS = "lossless"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of a lossless delivery."""

    published_frames: int
    acknowledged_frames: int | None
    """The client's last word; None if it never said any."""

    @property
    def complete(self) -> bool:
        """Whether the client has all frames, no less and no more."""
        return self.acknowledged_frames == self.published_frames


class Delivery:
    """The delivery of one session."""

    def __init__(self, mode: DeliveryMode) -> None:
        self._mode = mode
        self._acknowledged: int | None = None
        self._news = asyncio.Event()

    def acknowledge(self, frames: int) -> None:
        """The client has received so many frames by now."""
        self._acknowledged = frames
        self._news.set()

    async def until_watched(self, stage: Stage) -> None:
        """Wait for somebody who sees the first frame, if that matters; not for long."""
        if self._mode is DeliveryMode.LOSSLESS:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCHED_WITHIN_S):
                    await stage.until_watched()

    async def settle(self, published_frames: int) -> Receipt | None:
        """After the last frame: wait until it has arrived, or for as long as one should.

        Returns:
            None for latest, which promises nothing.
        """
        if self._mode is DeliveryMode.LATEST:
            await asyncio.sleep(DRAIN_S)
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ACKNOWLEDGED_WITHIN_S):
                while self._acknowledged is None or self._acknowledged < published_frames:
                    self._news.clear()
                    await self._news.wait()
        return Receipt(published_frames=published_frames, acknowledged_frames=self._acknowledged)


def delivery_mode(request: SessionRequest) -> DeliveryMode:
    """Return what the client asked for; raises `InvalidConfig` for a word that nobody knows."""
    word = request.config.get("delivery_mode")
    if word in (None, "latest", "latest_wins", "latest-wins"):
        return DeliveryMode.LATEST
    if word == "lossless":
        return DeliveryMode.LOSSLESS
    raise InvalidConfig(f"delivery_mode must be latest or lossless, not {word!r:.40}.")
