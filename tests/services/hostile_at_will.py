"""A service that breaks when and how a session's config says; it takes its whole process along.

``break_in`` is one of ``create``, ``push``, ``pull``, ``close``; ``break_how`` is one of the words
of `HOW`. Without them a session plays tiny grey frames for ever. A file beside this one that is
named ``start.txt`` or ``stop.txt`` and holds such a word breaks the service itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _raise() -> None:
    raise RuntimeError("the world fell apart")


def _exit() -> None:
    os._exit(3)


def _leave() -> None:
    sys.exit(4)


def _segfault() -> None:
    ctypes.string_at(0)


def _kill() -> None:
    """As the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def _hold_gil() -> None:
    """Wait for ever in native code that keeps the interpreter to itself."""
    ctypes.PyDLL(None).pause()


def _loop() -> None:
    while True:
        pass


def _allocate() -> None:
    """Take what there is, and then the crumbs."""
    kept, size = [], 64 * 1024 * 1024
    while True:
        try:
            kept.append(bytearray(size))
        except MemoryError:
            size = max(64, size // 2)


def _allocate_once() -> None:
    bytearray(2**40)


def _bear_children() -> None:
    """Leave a process behind that would live for long, and end."""
    subprocess.Popen(["sleep", f"600.{os.getpid():07}"])
    os._exit(5)


HOW: dict[str, Callable[[], None]] = {
    "raise": _raise,
    "exit": _exit,
    "leave": _leave,
    "segfault": _segfault,
    "kill": _kill,
    "hold_gil": _hold_gil,
    "loop": _loop,
    "allocate": _allocate,
    "allocate_once": _allocate_once,
    "bear_children": _bear_children,
}


class HostileService:
    """Bidirectional."""

    def __init__(self) -> None:
        self._configs: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        self._break_by_file("start")

    def stop(self) -> None:
        self._break_by_file("stop")

    def create_session(self, config: dict[str, Any]) -> str:
        name = f"p{len(self._configs)}"
        self._configs[name] = config
        self._break("create", name)
        return name

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        if chunk.get("type") != "stop":
            self._break("push", session_id)

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        for index in range(1_000_000):
            if index == 2:
                self._break("pull", session_id)
            await asyncio.sleep(0.01)
            frames = [np.full((16, 16, 3), index % 256, dtype=np.uint8)]
            yield {"type": "chunk", "index": index, "fps": 50, "frames": frames}

    def close_session(self, session_id: str) -> None:
        self._break("close", session_id)

    def _break(self, where: str, session_id: str) -> None:
        config = self._configs.get(session_id, {})
        if config.get("break_in") == where:
            _say(f"breaking in {where}")
            HOW[config["break_how"]]()

    def _break_by_file(self, where: str) -> None:
        order = Path(__file__).with_name(f"{where}.txt")
        if order.exists():
            _say(f"breaking in {where}")
            HOW[order.read_text().strip()]()


def get_service() -> HostileService:
    """The entry point."""
    return HostileService()
