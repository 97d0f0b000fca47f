"""How do several nodes run as one command?

``--num-workers N`` makes the process a parent of N ordinary nodes, each with its own name, service
and GPUs, and no part of their work. It starts a node that ended anew, after a pause that grows, and
stops them all at once. Nodes die with it. A node that can't serve is tried again for ever while
another one serves; only when all of them refuse does the command end, with their status.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from gpu_node.gpu_groups import gpu_groups
from gpu_node.settings import NodeSettings, member_environment, usable_gpus
from shared.embedded.child import Child, ChildSpec, Graveyard
from shared.errors import InvalidName, StartupError
from shared.ids import check_node_id
from shared.lifecycle import Background

_log = structlog.get_logger()

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_STEADY_AFTER_S = 60.0
_CLEANUP_S = 11.0
"""What a node needs after its drain grace; less than what whoever supervises us allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of the fleet."""

    name: str
    env: Mapping[str, str]
    log: Path


def gpus_of_nodes(settings: NodeSettings) -> tuple[tuple[str, ...] | None, ...]:
    """Return for each node its GPUs, None where nothing is chosen; raises `StartupError`."""
    if settings.num_workers == 1 and not settings.worker_gpu_map:
        return (None,)
    try:
        groups = gpu_groups(settings.worker_gpu_map, settings.num_workers, usable_gpus())
    except ValueError as error:
        raise StartupError(
            f"--worker-gpu-map (GREENROOM_WORKER_GPU_MAP) can't be used: {error}."
        ) from error
    return groups or (None,) * settings.num_workers


def members_of(settings: NodeSettings) -> tuple[Member, ...]:
    """Return the nodes of one command; raises `StartupError`."""
    return tuple(
        _member(settings, number, gpus) for number, gpus in enumerate(gpus_of_nodes(settings), 1)
    )


def _member(settings: NodeSettings, number: int, gpus: tuple[str, ...] | None) -> Member:
    try:
        name = check_node_id(f"{settings.node_id}-{number}")
    except InvalidName as error:
        raise StartupError(f"{error} A number is added for each of --num-workers.") from error
    own = {
        "node_id": name,
        "num_workers": 1,
        "worker_gpu_map": "",
        "metrics_port": settings.metrics_port + number - 1 if settings.metrics_port else 0,
    }
    log = settings.data_dir / "logs" / f"{name}.log"
    return Member(name=name, env=member_environment(own, gpus), log=log)


class Fleet:
    """Keeps the nodes alive until it's asked to stop."""

    def __init__(
        self,
        members: tuple[Member, ...],
        *,
        refusals: frozenset[int],
        drain_grace_s: float,
    ) -> None:
        self._members = members
        self._refusals = refusals
        """Exit statuses after which another start would most likely end the same way."""
        self._drain_grace_s = drain_grace_s
        self._graveyard = Graveyard()
        self._running: dict[str, Child] = {}
        self._refused: dict[str, int] = {}
        self._last_words = ""
        self._stopping = asyncio.Event()
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(
        self, stop: asyncio.Event, *, in_haste: Callable[[], bool] = lambda: False
    ) -> int:
        """Run until *stop*, or until no node can serve; return the exit status.

        Raises:
            StartupError: All nodes refuse, with the words of the last one.
        """
        await self._graveyard.open()
        keeping = Background(lambda _name, _error: self._finish(1))
        asked = asyncio.create_task(stop.wait())
        try:
            for member in self._members:
                keeping.start(f"keep {member.name}", self._keep(member))
            first: set[asyncio.Future[Any]] = {asked, self._over}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            await self._stop(keeping, in_haste=in_haste())
        finally:
            asked.cancel()
            await keeping.aclose()
            await self._graveyard.aclose()
        if self._refused and self._over.done() and self._last_words:
            raise StartupError(self._last_words)
        return self._over.result() if self._over.done() else 0

    async def _keep(self, member: Member) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            status, words = await self._run_once(member)
            if self._stopping.is_set():
                return
            self._note(member, status, words)
            if time.monotonic() - began_s > _STEADY_AFTER_S:
                pause_s = _FIRST_PAUSE_S
            _log.warning("node_ended", node=member.name, status=status, again_in_s=pause_s)
            await _sleep_unless(self._stopping, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run_once(self, member: Member) -> tuple[int, str]:
        """Return how a run of the node ended, and its last plain words."""
        spec = ChildSpec(
            name=member.name,
            argv=(sys.executable, "-m", "gpu_node"),
            env=member.env,
            ready=_at_once,
            shown=True,
        )
        child = Child(spec, log=member.log, graveyard=self._graveyard, show=_pass_on)
        await child.spawn()
        self._running[member.name] = child
        _log.info("node_started", node=member.name, pid=child.pid)
        try:
            return await child.wait(), sentence_of(child.tail)
        finally:
            del self._running[member.name]

    def _note(self, member: Member, status: int, words: str) -> None:
        if status in self._refusals:
            self._refused[member.name] = status
            self._last_words = words
            if len(self._refused) == len(self._members):
                self._finish(status)
        else:
            self._refused.pop(member.name, None)

    async def _stop(self, keeping: Background, *, in_haste: bool) -> None:
        """All at once: each gives its sessions back by itself."""
        self._stopping.set()
        for child in self._running.values():
            child.signal(signal.SIGINT if in_haste else signal.SIGTERM)
        limit_s = _CLEANUP_S + (0.0 if in_haste else self._drain_grace_s)
        try:
            async with asyncio.timeout(limit_s):
                await keeping.join()
        except TimeoutError:
            for child in self._running.values():
                child.signal(signal.SIGKILL)
            await keeping.join()

    def _finish(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)


def sentence_of(tail: Iterable[str]) -> str:
    """Return the last plain lines of what a node printed; log lines are JSON."""
    backwards = itertools.dropwhile(_is_log_line, reversed(list(tail)))
    plain = list(itertools.takewhile(lambda line: not _is_log_line(line), backwards))
    return "\n".join(line.removeprefix("greenroom node: ") for line in reversed(plain))


def _is_log_line(line: str) -> bool:
    return line.startswith("{")


async def _sleep_unless(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _at_once() -> bool:
    return True


def _pass_on(_name: str, line: str) -> None:
    """A node's log line stays as it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
