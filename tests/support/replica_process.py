"""How does a test run a replica as a process of its own, to be signalled and killed?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from tests.support.replica import API_KEY, API_SECRET
from tests.support.wait import scaled_s

ROOT = Path(__file__).parents[2]
Start = Callable[..., "ReplicaProcess"]


class ReplicaProcess:
    """One ``python -m control_plane``."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "control_plane"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        """All that it wrote to standard out, its log included."""
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            self._lines.put(line)

    def address(self) -> str:
        """Return what it says that it listens on."""
        while True:
            try:
                line = self._lines.get(timeout=scaled_s(15))
            except Empty:
                raise AssertionError("it never said where it listens") from None
            if found := re.fullmatch(r"listening on (http://\S+)\n", line):
                return found[1]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def result(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and what it wrote to standard error."""
        code = self._process.wait(scaled_s(20))
        assert self._process.stderr is not None
        return code, self._process.stderr.read()

    def close(self) -> None:
        """Leave nothing of it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def replica_environment(redis_url: str, data_dir: Path, **options: str) -> dict[str, str]:
    """Return what a replica's process needs, and these options; an empty one is left out."""
    known = {
        "REDIS_URL": redis_url,
        "LIVEKIT_URL": "ws://127.0.0.1:9",
        "LIVEKIT_API_KEY": API_KEY,
        "LIVEKIT_API_SECRET": API_SECRET,
        "DATA_DIR": str(data_dir),
        "PORT": "0",
    }
    environment = {name: value for name, value in os.environ.items() if "LIVEKIT" not in name}
    given = {name: value for name, value in (known | options).items() if value}
    environment.update((f"GREENROOM_{name}", value) for name, value in given.items())
    return environment


@pytest.fixture
def start_replica(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Start replicas with given options; none of them outlives the test."""
    started: list[ReplicaProcess] = []

    def start_one(**options: str) -> ReplicaProcess:
        process = ReplicaProcess(replica_environment(redis_url, tmp_path, **options))
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.close()
