"""How is one child process started, listened to and stopped?

Its output goes line by line to a log file that is bounded in size, to a short tail that is shown
when it fails, and, if its spec says so, to the person at the terminal. It lives in a session and
process group of its own: Ctrl-C in the terminal doesn't reach it, stopping it reaches its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Self

from shared.embedded import tether

TAIL_LINES = 15
_LOG_LIMIT_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_LAST_OUTPUT_WITHIN_S = 1.0

Probe = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What a child is: how to start it, how to know that it is ready, how to stop it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready: Probe
    """Asked again and again after each start until it says True."""
    ready_within_s: float | None = 20.0
    """A child that isn't ready by then is killed and counts as crashed; None: no limit."""
    stop_within_s: float = 5.0
    """After SIGTERM; then SIGKILL."""
    interrupt_within_s: float | None = None
    """The same after Ctrl-C, when the child gets SIGINT instead; None: no difference is made."""
    term_twice: bool = False
    """A second SIGTERM follows soon: LiveKit waits for its participants after the first."""
    final_statuses: frozenset[int] = frozenset((2,))
    """Exit statuses after which another start would end the same way; 2: an operator's mistake."""
    shown: bool = False
    """Its lines are shown to the person at the terminal."""
    pass_fds: tuple[int, ...] = field(default=())
    """Descriptors that it inherits, such as a lock that must live as long as it does."""


class Graveyard:
    """The process that kills what a supervisor leaves behind when it is killed itself."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def open(self) -> None:
        """Start it; before any child, so that none is ever unwatched."""
        self._process = await asyncio.create_subprocess_exec(
            *tether.bury_command(), stdin=asyncio.subprocess.PIPE, start_new_session=True
        )

    def tell(self, sign: str, group: int) -> None:
        """Note that a process group lives (``+``) or is over (``-``)."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(f"{sign}{group}\n".encode())

    async def aclose(self) -> None:
        """Close the pipe: it kills what is left, and ends."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        await self._process.wait()
        self._process = None


class Child:
    """One run of one spec after another; the supervisor decides when."""

    def __init__(
        self, spec: ChildSpec, *, log: Path, graveyard: Graveyard, show: Callable[[str, str], None]
    ) -> None:
        self.spec = spec
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._log = log
        self._graveyard = graveyard
        self._show = show
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._is_log_lost = False

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def spawn(self) -> None:
        """Start the process."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("children are tied to the main thread and must be started from it")
        self.tail.clear()
        process = await asyncio.create_subprocess_exec(
            *tether.hold_command(self.spec.argv),
            env=dict(self.spec.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.spec.pass_fds,
        )
        self._graveyard.tell("+", process.pid)
        self._process = process
        self._pump = asyncio.create_task(self._read(process), name=f"{self.spec.name}-output")

    async def wait(self) -> int:
        """Return the exit status once the process is done and, within a moment, its output.

        The moment is for a grandchild that left the process group and holds the pipe open.
        """
        if self._process is None or self._pump is None:
            raise RuntimeError(f"{self.spec.name} was never started")
        status = await self._process.wait()
        self.signal(signal.SIGKILL)  # whatever it left in its process group
        await asyncio.wait({self._pump}, timeout=_LAST_OUTPUT_WITHIN_S)
        self._pump.cancel()
        self._graveyard.tell("-", self._process.pid)
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGKILL goes to the whole process group, others to the child alone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise RuntimeError("the child was started without a pipe")
        with BoundedLog(self._log) as log:
            rest = b""
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                self._keep(log, chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._on_line(line)
                if len(rest) > _CHUNK_BYTES:  # one endless line must not fill the memory
                    self._on_line(rest)
                    rest = b""
            if rest:
                self._on_line(rest)

    def _keep(self, log: BoundedLog, chunk: bytes) -> None:
        """Write to the log; a full disk must not stop the reading, or the child blocks."""
        try:
            log.write(chunk)
            self._is_log_lost = False
        except OSError as error:
            if not self._is_log_lost:
                self._is_log_lost = True
                self._show(
                    self.spec.name, f"its log {self._log} can't be written ({error.strerror})"
                )

    def _on_line(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self.tail.append(text)
            if self.spec.shown:
                self._show(self.spec.name, text)


class BoundedLog:
    """A log file that moves to ``<name>.1`` when it is full; the one before that is dropped.

    It's opened by the first write, and again by the next one after a write that failed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def write(self, data: bytes) -> None:
        """Append *data* so that a reader sees it at once; raises `OSError`."""
        try:
            file = self._file or self._open()
            if file.tell() + len(data) > _LOG_LIMIT_BYTES:
                self._close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                file = self._open()
            file.write(data)
        except OSError:
            self._close()
            raise

    def _open(self) -> FileIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self._path, "ab")  # unbuffered: nothing is left over from a full disk
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
