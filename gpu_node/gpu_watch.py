"""What follows for a node from how its GPUs are?

Their figures go into the metrics and the next beat. A GPU in use that is lost or broken takes the
node out of service: it offers nothing, says why, and its sessions go elsewhere, for what the model
keeps on that GPU is gone. A driver that doesn't answer is only told of: what plays may play on.

When all are well again, a service in a child is brought up anew. One that lived in this process
can't be, since a process that lost a GPU never gets it back: then the node ends, to be started
afresh by whoever supervises it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import structlog

from gpu_node import metrics
from gpu_node.heartbeat import Heartbeat
from shared.gpus import GpuFacts, broken, gpus_text
from shared.lifecycle import repeat

_log = structlog.get_logger()

_EVERY_S = 1.0


class Reader(Protocol):
    """Where the facts come from: `gpu_node.gpu_reader.GpuReader`."""

    def start(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End."""
        ...

    def facts(self) -> GpuFacts | None:
        """Return what is known, at once; None where there is nothing to know."""
        ...


class Grounded(Protocol):
    """Who can be taken out of service: `gpu_node.service_life.ServiceLife`."""

    async def ground(self, why: str) -> None:
        """Serve nobody any more."""
        ...

    def release(self) -> bool:
        """Serve again; False: this process can't."""
        ...


class GpuWatch:
    """Called on the agent's loop."""

    def __init__(
        self,
        reader: Reader,
        heartbeat: Heartbeat,
        service: Grounded,
        *,
        start: Callable[[str, Coroutine[Any, Any, None]], object],
        give_up: Callable[[], None],
    ) -> None:
        """Watch over *service*; *start* runs a task, *give_up* ends the node."""
        self._reader = reader
        self._heartbeat = heartbeat
        self._service = service
        self._start = start
        self._give_up = give_up
        self._why = ""
        self._was_unknown = False

    async def run(self) -> None:
        """Look for ever."""
        await repeat(self.look, name="gpu watch", every_s=_EVERY_S)

    async def look(self) -> None:
        """Tell how the GPUs are, and act if that has changed for the node."""
        facts = self._reader.facts()
        if facts is None:
            return
        metrics.gpus(facts)
        self._heartbeat.note_gpus(gpus_text(facts))
        if bool(facts.unknown_s) is not self._was_unknown:
            self._was_unknown = bool(facts.unknown_s)
            _log.warning("gpu_driver", answers=not self._was_unknown, for_s=facts.unknown_s)
        why = broken(facts)
        if why and not self._why:
            _log.error("gpu_lost", why=why)
            self._start("ground", self._service.ground(why))
        elif self._why and not why and not facts.unknown_s:
            _log.warning("gpu_well_again")
            if not self._service.release():
                self._give_up()
        else:
            return
        self._why = why
