"""How is one process of the fleet started, hurt and watched?

Whoever kills a member says so first. One that ends without having been told to is a finding of its
own, and so is what it logs as an error. It's started again so that the run goes on. All are tied to
the run (`shared.embedded.tether`), and so none outlives it, however it ends.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from shared.embedded.child import Child, ChildSpec, Graveyard

_ENDS_WITHIN_S = 25.0
"""After SIGTERM: the drain grace and whatever a node may wait for after it."""
_AGAIN_S = 0.5
_MISTAKE = 2
_AWAY = re.compile(r"Redis (can't be reached|doesn't tell)")
"""How a process says at its start that it waited long enough for Redis; one that never finds it is
missed at the end of the seed."""
_ERROR = re.compile(r'"level": "(error|critical)"')
_SDKS_OWN = re.compile(r'"event": "livekit(::|_)')
"""LiveKit's SDK tells of every lost connection as an error."""
_TOLD = re.compile(r'"(?:event|exception|error|why)": "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """A process that did what nobody told it to."""

    name: str
    what: str
    tail: tuple[str, ...]
    killed: bool = False
    """A SIGKILL ended it that this run didn't send."""


class Member:
    """One process: replica, node or Redis."""

    def __init__(self, spec: ChildSpec, *, log_dir: Path, graveyard: Graveyard) -> None:
        self.spec = spec
        self.surprises: list[Surprise] = []
        self.thawed_at_s: list[float] = []
        self._log_dir = log_dir
        self._graveyard = graveyard
        self._child: Child | None = None
        self._watch: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._ended.set()
        self._is_asked = False
        """It was killed or asked to end."""
        self._status = 0

    async def start(self) -> None:
        """Start it, unless it runs."""
        if not self._ended.is_set():
            return
        self._ended.clear()
        self._is_asked = False
        self._child = Child(
            self.spec,
            log=self._log_dir / f"{self.spec.name}.log",
            graveyard=self._graveyard,
            show=self._see_line,
        )
        await self._child.spawn()
        self._watch = asyncio.create_task(self._wait(self._child), name=f"watch {self.spec.name}")

    async def ready(self, within_s: float) -> bool:
        """Wait until it answers."""
        deadline_s = time.monotonic() + within_s
        while not await self.spec.ready():
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(0.05)
        return True

    async def kill(self) -> None:
        """Kill -9, and wait for its end."""
        self._is_asked = True
        if self._child is not None and not self._ended.is_set():
            self._child.signal(signal.SIGKILL)
            await self._ended.wait()

    async def terminate(self) -> None:
        """SIGTERM, and wait for its end."""
        if self._child is None or self._ended.is_set():
            return
        self._is_asked = True
        self._child.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._ended.wait(), _ENDS_WITHIN_S)
        except TimeoutError:
            self._note(f"didn't end within {_ENDS_WITHIN_S:g} s after SIGTERM")
            await self.kill()
        else:
            if self._status not in (0, -signal.SIGTERM):  # it was asked before it could listen
                self._note(f"ended with status {self._status} after SIGTERM")

    def freeze(self) -> None:
        """SIGSTOP."""
        if self._child is not None:
            self._child.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        if self._child is not None:
            self.thawed_at_s.append(time.monotonic())
            self._child.signal(signal.SIGCONT)

    async def _wait(self, child: Child) -> None:
        self._status = await child.wait()
        self._ended.set()
        if not self._is_asked:
            if not (self._status == _MISTAKE and _AWAY.search("\n".join(child.tail))):
                self._note(f"ended by itself with status {self._status}")
            await asyncio.sleep(_AGAIN_S)
            await self.start()

    def _see_line(self, _name: str, line: str) -> None:
        is_error = _ERROR.search(line) and not _SDKS_OWN.search(line)
        if line.startswith("Traceback") or is_error:
            told = _TOLD.findall(line) or [line[:200]]
            self._note(f"logged {' '.join(part[-300:] for part in told)}", tail=())

    def _note(self, what: str, tail: tuple[str, ...] | None = None) -> None:
        if tail is None:
            tail = tuple(self._child.tail) if self._child is not None else ()
        killed = self._status == -signal.SIGKILL and "ended" in what
        self.surprises.append(Surprise(name=self.spec.name, what=what, tail=tail, killed=killed))
