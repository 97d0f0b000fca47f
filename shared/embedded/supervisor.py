"""How do child processes become ready, come back after a crash, and stop in the right order?

Each child has one task that starts it, waits for its end and, unless everything is being stopped,
starts it again, on the same port since its command never changes. Between two runs lies a back-off
that grows while crashes follow each other. A child that crashes too often, or whose exit status
says that another start would be in vain, ends the whole: `Supervisor.failure` then raises with its
last log lines.

Stopping goes in the order of `Supervisor.aclose`'s argument, one after the other, each with SIGTERM
(SIGINT after a Ctrl-C, for those that make a difference), a limit, and SIGKILL. `hurry` cuts all
limits short: that is the second Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.embedded.child import Child, ChildSpec, Graveyard
from shared.errors import StartupError

_PROBE_EVERY_S = 0.05
_SECOND_TERM_AFTER_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a crashed child is started again, and when it is given up."""

    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    crashes: int = 5
    within_s: float = 60.0

    def pause_s(self, crashes: int) -> float:
        """Return the pause after so many crashes in a row within the window."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** (crashes - 1))


class ChildFailed(StartupError):
    """A child can't run; the message ends with its last log lines."""

    code = "child_failed"

    def __init__(self, *, name: str, why: str, tail: Sequence[str]) -> None:
        lines = "".join(f"\n  {name} | {line}" for line in tail)
        super().__init__(f"{name} {why}.{' Its last lines:' if lines else ''}{lines}")
        self.name = name


class ChildRefused(StartupError):
    """A child ended for good: its last lines already are the sentence for the operator."""

    code = "child_refused"


class _Kept:
    """One child with its task; only that task writes the fields."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.crashes: deque[float] = deque()
        self.task: asyncio.Task[None] | None = None


class Supervisor:
    """Keeps a set of children alive until it is closed.

    Args:
        log_dir: Folder that gets ``<child>.log``.
        say: Shows one line of progress to the person at the terminal.
        show: Shows one output line of a child whose spec asks for it: (name, line).
    """

    def __init__(
        self,
        *,
        log_dir: Path,
        say: Callable[[str], None],
        show: Callable[[str, str], None],
        policy: RestartPolicy | None = None,
    ) -> None:
        self._log_dir = log_dir
        self._say = say
        self._show = show
        self._policy = policy or RestartPolicy()
        self._graveyard = Graveyard()
        self._kept: dict[str, _Kept] = {}
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Start what cleans up after us; before the first child."""
        await self._graveyard.open()

    def start(self, spec: ChildSpec) -> None:
        """Start a child and keep it alive; returns at once."""
        log = self._log_dir / f"{spec.name}.log"
        kept = _Kept(Child(spec, log=log, graveyard=self._graveyard, show=self._show))
        self._kept[spec.name] = kept
        kept.task = asyncio.create_task(self._keep(kept), name=f"keep-{spec.name}")

    async def ready(self, *names: str) -> None:
        """Return when all of *names* are ready; raises what `failure` raises."""
        everyone = asyncio.create_task(self._all_ready(names))
        waits: set[asyncio.Future[Any]] = {everyone, self._failure}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everyone.cancel()
        if self._failure.done():
            self._failure.result()

    async def _all_ready(self, names: Sequence[str]) -> None:
        for name in names:
            await self._kept[name].ready.wait()

    async def failure(self) -> None:
        """Wait until a child is given up, then raise `ChildFailed` or `ChildRefused`."""
        await asyncio.shield(self._failure)

    def pid(self, name: str) -> int | None:
        """Return the process id of a child's present run."""
        return self._kept[name].child.pid

    def hurry(self) -> None:
        """Cut the limits of a stop short: whatever still lives is killed."""
        self._hurry.set()

    async def aclose(self, order: Sequence[str], *, interrupted: bool = False) -> None:
        """Stop all children, those of *order* first; return when none is left.

        Args:
            order: Names, first to stop first; unknown ones and never started ones are skipped.
            interrupted: A person pressed Ctrl-C: children that make a difference stop at once.
        """
        self._stopping.set()
        known = [name for name in order if name in self._kept]
        rest = [name for name in self._kept if name not in known]
        for name in known + rest:
            await self._stop(self._kept[name], interrupted=interrupted)
        await self._graveyard.aclose()
        if self._failure.done():
            self._failure.exception()  # looked at, so that it isn't reported as forgotten

    async def _keep(self, kept: _Kept) -> None:
        try:
            while not self._stopping.is_set():
                started_s = time.monotonic()
                await kept.child.spawn()
                if self._stopping.is_set():  # the stop's own signal went to the run before
                    kept.child.signal(signal.SIGTERM)
                probe = asyncio.create_task(self._probe(kept), name=f"probe-{kept.child.spec.name}")
                status = await kept.child.wait()
                probe.cancel()
                kept.ready.clear()
                if self._stopping.is_set() or self._given_up(kept, status):
                    return
                await self._pause(kept, status, time.monotonic() - started_s)
        except OSError as error:
            self._fail(StartupError(f"{kept.child.spec.name} can't be started ({error.strerror})."))
        finally:
            kept.ended.set()

    async def _probe(self, kept: _Kept) -> None:
        """Ask until the child is ready; kill it when that takes longer than it may."""
        spec = kept.child.spec
        deadline_s = None if spec.ready_within_s is None else time.monotonic() + spec.ready_within_s
        while not await spec.ready():
            if deadline_s is not None and time.monotonic() > deadline_s:
                self._say(
                    f"{spec.name} isn't ready after {spec.ready_within_s:.0f} s: restarting it"
                )
                kept.child.signal(signal.SIGKILL)
                return
            await asyncio.sleep(_PROBE_EVERY_S)
        kept.ready.set()

    def _given_up(self, kept: _Kept, status: int) -> bool:
        """Note a crash; tell whether it was one too many."""
        name, tail = kept.child.spec.name, list(kept.child.tail)
        if status in kept.child.spec.final_statuses:
            sentence = _sentence(tail)
            why = f"ended for good ({_ending(status)})"
            failed = ChildFailed(name=name, why=why, tail=tail)
            self._fail(ChildRefused(sentence) if sentence else failed)
            return True
        now_s = time.monotonic()
        kept.crashes.append(now_s)
        while kept.crashes[0] < now_s - self._policy.within_s:
            kept.crashes.popleft()
        if len(kept.crashes) < self._policy.crashes:
            return False
        times = f"{self._policy.crashes} times within {self._policy.within_s:.0f} s"
        self._fail(ChildFailed(name=name, why=f"crashed {times} ({_ending(status)})", tail=tail))
        return True

    async def _pause(self, kept: _Kept, status: int, lived_s: float) -> None:
        pause_s = self._policy.pause_s(len(kept.crashes))
        name = kept.child.spec.name
        self._say(f"{name} ended after {lived_s:.1f} s ({_ending(status)}): starting it again")
        await _wait(self._stopping, pause_s)

    def _fail(self, error: StartupError) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _stop(self, kept: _Kept, *, interrupted: bool) -> None:
        spec = kept.child.spec
        limit_s, number = spec.stop_within_s, signal.SIGTERM
        if interrupted and spec.interrupt_within_s is not None:
            limit_s, number = spec.interrupt_within_s, signal.SIGINT
        kept.child.signal(number)
        if spec.term_twice and not await self._ends(kept, _SECOND_TERM_AFTER_S):
            kept.child.signal(signal.SIGTERM)
        if not await self._ends(kept, limit_s):
            kept.child.signal(signal.SIGKILL)
        if kept.task is not None:
            await kept.task

    async def _ends(self, kept: _Kept, within_s: float) -> bool:
        """Wait for the child's end, its limit, or the second Ctrl-C; tell whether it ended."""
        hurry = asyncio.ensure_future(self._hurry.wait())
        ended = asyncio.ensure_future(kept.ended.wait())
        await asyncio.wait({hurry, ended}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        ended.cancel()
        return kept.ended.is_set()


async def _wait(event: asyncio.Event, limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()


def _sentence(tail: Sequence[str]) -> str:
    """Return the plain lines at the end of *tail*; log lines are JSON and don't count."""
    plain = list(itertools.takewhile(lambda line: not line.startswith("{"), reversed(tail)))
    return "\n".join(reversed(plain))


def _ending(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
