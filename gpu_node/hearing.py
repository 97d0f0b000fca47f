"""How does the controller's voice reach the pipeline session?

In pieces of a tenth of a second, as ``{"type": "audio", "samples", "audio_sample_rate",
"lost_s"}``: mono, 16 bit, at the rate that the service asked for. A service that is slow gets the
newest second; how much was dropped before a piece is said in it. What is said before the pipeline
session exists is gone, as it is in a telephone that nobody has taken up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import numpy as np
import structlog

from gpu_node import metrics
from gpu_node.room import Pcm
from shared.errors import ServiceFault
from shared.lifecycle import Background

_log = structlog.get_logger()

PIECE_S = 0.1
MOST_S = 1.0
"""Of sound that the service hasn't taken yet."""


class Hearing:
    """The sound of one session's controller on its way to the service; on the event loop."""

    def __init__(
        self, rate_hz: int, push: Callable[[Mapping[str, object]], Awaitable[None]]
    ) -> None:
        self._rate_hz = rate_hz
        self._push = push
        self._heard: deque[Pcm] = deque()
        self._samples = self._lost = 0
        self._enough = asyncio.Event()
        self._tasks = Background()

    def open(self) -> None:
        """The pipeline session runs."""
        self._tasks.start("hearing", self._hand_on())

    def take(self, pcm: Pcm) -> None:
        """The controller said this; nothing is kept before `open`."""
        if self._tasks.is_idle:
            return
        self._heard.append(pcm)
        self._samples += len(pcm)
        while self._samples > MOST_S * self._rate_hz:
            dropped = len(self._heard.popleft())
            self._samples -= dropped
            self._lost += dropped
            metrics.sound_dropped(dropped / self._rate_hz)
        if self._samples >= PIECE_S * self._rate_hz:
            self._enough.set()

    async def aclose(self) -> None:
        """Hand on nothing more."""
        await self._tasks.aclose()
        self._heard.clear()

    async def _hand_on(self) -> None:
        while True:
            await self._enough.wait()
            self._enough.clear()
            samples = np.concatenate(self._heard)[:, 0]
            lost, self._lost = self._lost, 0
            self._heard.clear()
            self._samples = 0
            chunk = {
                "type": "audio",
                "samples": samples,
                "audio_sample_rate": self._rate_hz,
                "lost_s": lost / self._rate_hz,
            }
            try:
                await self._push(chunk)
            except ServiceFault as error:
                _log.warning("sound_failed", error=str(error))
                return
