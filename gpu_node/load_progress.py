"""How far is the service, as operators see it while it comes up?

Told to the registry about once a second while there is something to tell, so that whoever looks at
the node sees the step, how long it takes, and the last line that the service wrote. It's for people
only: nothing waits for it, and while the registry is out it's left untold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from gpu_node.heartbeat import Heartbeat
from shared.clock import Clock
from shared.errors import StoreUnavailable
from shared.node_profile import NodeProgress

_EVERY_S = 1.0

Tell = Callable[[int, NodeProgress | None], Awaitable[None]]
"""Takes the incarnation; None once the service serves."""


class LoadProgress:
    """What is told of one node's service. Every method is called on the agent's loop."""

    def __init__(self, heartbeat: Heartbeat, clock: Clock, tell: Tell) -> None:
        self._heartbeat = heartbeat
        self._clock = clock
        self._tell = tell
        self._began_s = clock.monotonic_s()
        self._step: str | None = None
        self._attempt = 1
        self._error = ""
        self._changed = asyncio.Event()
        self.last_line: Callable[[], str] = str
        """What the service said last."""

    def begin(self, attempt: int) -> None:
        """A new attempt begins; why the one before failed stays told."""
        self._attempt = attempt
        self._began_s = self._clock.monotonic_s()

    def reach(self, step: str) -> None:
        """The service has come to *step*."""
        self._step = step
        self._changed.set()

    def fail(self, error: str) -> None:
        """The attempt is over, because of *error*."""
        self._error = error
        self.reach("failed")

    def finish(self) -> None:
        """The service serves: there's nothing to tell any more."""
        self._step = None
        self._changed.set()

    async def follow(self) -> None:
        """Tell what there is, until the registry has heard that the service serves."""
        while True:
            self._changed.clear()
            if incarnation := self._heartbeat.incarnation:
                told = self.now()
                with contextlib.suppress(StoreUnavailable):
                    await self._tell(incarnation, told)
                    if told is None and self._step is None:
                        return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()

    def now(self) -> NodeProgress | None:
        """Return what is to be told."""
        if self._step is None:
            return None
        return NodeProgress(
            step=self._step,
            seconds=self._clock.monotonic_s() - self._began_s,
            attempt=self._attempt,
            line=self.last_line(),
            error=self._error,
        )
